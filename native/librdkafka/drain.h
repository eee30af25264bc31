/* One assigned consumer of librdkafka, drained into columns.  Nothing here knows Python. */
#ifndef COHORT_DRAIN_H
#define COHORT_DRAIN_H

#include <pthread.h>
#include <sys/types.h>

#include "arrow/spans.h"
#include "events.h"
#include "kafka.h"
#include "spent.h"

enum { CHUNK = 256, MOST_NOTES = 256 };

/* An error of librdkafka: its code and its words. */
typedef struct {
  int code;
  char words[WORDS];
} failure;

/* See _native.pyi for what the numbers are.  `of` is NULL for an error without a partition; `rows` and `runs` are of RECORDS. */
typedef struct {
  event_kind kind;
  const topic *of;
  int32_t partition;
  int64_t offset, number, rows;
  char *words;
  struct ArrowArray array;
  offset_runs runs; /* owned */
} event;

/* An error without a partition, or a log line: librdkafka may say so in any thread. */
typedef struct {
  int number; /* error code, or syslog level */
  char *text;
} note;

typedef struct {
  note all[MOST_NOTES];
  size_t count;
} notes;

/* Consecutive records of one partition, on their way. */
typedef struct {
  const rd_kafka_topic_t *of;
  int32_t partition;
  span *within; /* NULL: not assigned any more */
  int64_t next; /* behind the last record; -1 before the first */
  columns rows;
} run;

typedef struct {
  pid_t process; /* which made it: in a forked one the client has no threads, and would be waited for for ever */
  rd_kafka_t *client;
  rd_kafka_queue_t *queue;
  spans assigned;
  run run;
  event *events;
  size_t count, room;
  bool out_of_memory;
  bool broken; /* a partition was */
  int64_t mean_bytes; /* of a record, lately */
  int64_t taken;      /* bytes copied in this poll */
  pthread_mutex_t noting;
  notes errors, lines;
  spent back;
  kafka_message *chunk[CHUNK];
  size_t at, there; /* of the chunk, what has not been taken yet: the next poll begins with it */
} drain;

/* A client with these settings (`count` pairs of name and value); NULL with the reason. */
drain *drain_new(const char *const (*settings)[2], size_t count, const selection *, failure *why);
void drain_free(drain *);

/* As drain_free(), in a thread of its own; false when it hasn't ended in time: it is left to itself then, and never seen again. */
bool drain_end(drain *, int timeout_ms);

/* Whether a process that this one was forked from made it: it is to be left alone, also by drain_free(). */
bool drain_is_foreign(const drain *);

/* Fetch the partitions of the list; their spans are in `assigned` already.  The list stays the caller's. */
bool drain_assign(drain *, const rd_kafka_topic_partition_list_t *, failure *why);
bool drain_unassign(drain *, const rd_kafka_topic_partition_list_t *, failure *why);

/* Fill `events`, which drain_clear() empties.  False when memory has run out: positions are lost then. */
bool drain_poll(drain *, int timeout_ms, int64_t records, int64_t bytes);
void drain_clear(drain *);

/* Give back what is left of the last chunk: all of it, or that of partitions which are not assigned any more. */
void drain_forget(drain *, bool all_of_it);

/* Take records and give them back uncopied; returns how many. */
int64_t drain_count(drain *, int timeout_ms, int64_t records);

bool drain_log_range(drain *, const char *name, int32_t partition, int timeout_ms, int64_t range[2], failure *why);

/* What to log in with from now on, until `ends` (milliseconds since 1970); `count` names and values of extensions. */
bool drain_set_token(drain *, const char *token, int64_t ends, const char *principal, const char **extensions, size_t count,
                     failure *why);

/* 1 or 0, or -1 with the reason. */
int drain_exists(drain *, const char *name, int32_t partition, int timeout_ms, failure *why);

/* Append a record to the run's columns: RECORDS, or what is wrong with it; ERROR means that memory has run out or, with
 * `code` not 0, librdkafka's error. */
event_kind append_record(columns *, const kafka_message *, int64_t *milliseconds, int *code);

#endif
