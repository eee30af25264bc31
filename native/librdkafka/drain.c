/* The queue of one consumer, cut into events: runs of records of one partition, ends of logs, errors. */
#include "drain.h"

#include <stdlib.h>
#include <string.h>

enum { ROW_BYTES = 40 };  /* of a record beside its key and value: numbers, and their places */
enum { SPENT_POLLS = 3 }; /* so much more than a poll may copy is kept for the thread that made it: about a response */

/* --- events --------------------------------------------------------------------------------- */

static event *add_event(drain *all, event_kind kind, const span *of) {
  if (all->count == all->room) {
    size_t room = all->room ? 2 * all->room : 64;
    event *moved = realloc(all->events, room * sizeof *moved);
    if (!moved) {
      all->out_of_memory = true;
      return NULL;
    }
    all->events = moved;
    all->room = room;
  }
  event *added = &all->events[all->count++];
  *added = (event){.kind = kind, .of = of ? of->topic : NULL, .partition = of ? of->partition : -1, .offset = -1};
  return added;
}

static void add_error(drain *all, const span *of, int64_t offset, int code, const char *words) {
  event *added = add_event(all, ERROR, of);
  if (!added) return;
  added->offset = offset < 0 ? -1 : offset;
  added->number = code;
  added->words = strdup(words ? words : "");
  if (!added->words) all->out_of_memory = true;
}

void drain_clear(drain *all) {
  for (size_t i = 0; i < all->count; i++) {
    free(all->events[i].words);
    free(all->events[i].runs.all);
    if (all->events[i].array.release) all->events[i].array.release(&all->events[i].array);
  }
  all->count = 0;
}

/* --- runs ----------------------------------------------------------------------------------- */

/* Make an event of what the run has: also without rows, since its position has moved. */
static void flush_run(drain *all) {
  run *now = &all->run;
  int64_t rows = now->rows.rows;
  if (now->next < 0) return;
  event *added = add_event(all, RECORDS, now->within);
  if (!added) return;
  added->offset = now->next;
  now->next = -1;
  if (!rows) return;
  bool named = now->rows.selected.has[FIELD_TOPIC];
  name_column *name = named ? topic_column(now->within->topic, rows) : NULL;
  added->number = columns_bytes(&now->rows);
  added->runs = now->rows.runs;
  now->rows.runs = (offset_runs){0};
  if ((named && !name) || !columns_export(&now->rows, now->partition, name, &added->array)) {
    all->out_of_memory = true;
    return;
  }
  added->rows = rows;
}

static void end_run(drain *all) {
  flush_run(all);
  all->run.of = NULL;
  all->run.within = NULL;
}

/* Throw away what the run has, and that it has anything. */
static void lose_run(drain *all) {
  columns_free(&all->run.rows);
  all->run.next = -1;
}

static void begin_run(drain *all, const kafka_message *message) {
  run *now = &all->run;
  end_run(all);
  now->of = message->topic;
  now->partition = message->partition;
  now->within = spans_find(&all->assigned, kafka.topic_name(message->topic), message->partition);
  now->next = -1;
}

/* --- messages ------------------------------------------------------------------------------- */

static void take_error(drain *all, const kafka_message *message) {
  end_run(all);
  if (!message->topic || message->partition < 0) {
    add_error(all, NULL, -1, message->err, kafka.message_errstr(message));
    return;
  }
  all->broken |= message->err != KAFKA_PARTITION_EOF;
  span *of = spans_find(&all->assigned, kafka.topic_name(message->topic), message->partition);
  if (!of) return;
  if (message->err != KAFKA_PARTITION_EOF) {
    add_error(all, of, message->offset, message->err, kafka.message_errstr(message));
    return;
  }
  event *added = add_event(all, END_OF_LOG, of);
  if (added) added->offset = message->offset < 0 ? 0 : message->offset;
}

/* Give a partition up at a record that the row can't hold; those before it are handed out. */
static void fail_run(drain *all, event_kind kind, int64_t offset, int64_t milliseconds, int code) {
  span *of = all->run.within;
  if (kind == ERROR && code == KAFKA_OK) {
    all->out_of_memory = true;
    return;
  }
  flush_run(all);
  columns_clear(&all->run.rows); /* headers of the row that wasn't ended would be the next one's */
  of->failed = true;
  if (kind == ERROR) {
    add_error(all, of, -1, code, kafka.err2str(code));
    return;
  }
  event *added = add_event(all, kind, of);
  if (!added) return;
  added->offset = offset;
  added->number = milliseconds;
}

/* Arrow's offsets have 32 bits, and a record may be nearly as large; its headers aren't measured before they are read. */
static bool is_full(const columns *rows, const kafka_message *message) {
  return bytes_overflow(&rows->key, message->key_len) || bytes_overflow(&rows->value, message->len) ||
         bytes_overflow(&rows->headers.keys, INT32_MAX / 2) || bytes_overflow(&rows->headers.values, INT32_MAX / 2);
}

/* What the headers so far hold: a record can be all headers. */
static int64_t header_bytes(const columns *rows) {
  const headers_column *headers = &rows->headers;
  return (int64_t)(headers->keys.used + headers->values.used) + headers->keys.rows * (int64_t)(2 * sizeof(int32_t));
}

static void take_record(drain *all, const kafka_message *message) {
  run *now = &all->run;
  if (message->topic != now->of || message->partition != now->partition) begin_run(all, message);
  if (!now->within || now->within->failed) return;
  if (message->offset < now->within->end) {
    if (is_full(&now->rows, message)) flush_run(all);
    int64_t milliseconds = 0, before = header_bytes(&now->rows);
    int code;
    event_kind kind = append_record(&now->rows, message, &milliseconds, &code);
    if (kind != RECORDS) {
      fail_run(all, kind, message->offset, milliseconds, code);
      return;
    }
    all->taken += (int64_t)(message->key_len + message->len) + ROW_BYTES + header_bytes(&now->rows) - before;
  }
  now->next = message->offset + 1;
}

static void take(drain *all, const kafka_message *message) {
  if (all->out_of_memory) return; /* columns that have failed take nothing more, and their positions are lost anyway */
  if (message->err)
    take_error(all, message);
  else
    take_record(all, message);
}

/* --- the queue ------------------------------------------------------------------------------ */

/* How many messages to ask for: about what may be copied. */
static size_t next_chunk(const drain *all, int64_t records, int64_t bytes) {
  int64_t fit = (bytes - all->taken) / all->mean_bytes;
  if (fit > records) fit = records;
  return fit < 1 ? 1 : fit > CHUNK ? CHUNK : (size_t)fit;
}

static size_t take_chunk(drain *all, int timeout_ms, size_t wanted) {
  ssize_t got = kafka.consume_batch_queue(all->queue, timeout_ms, all->chunk, wanted);
  all->at = 0;
  all->there = got > 0 ? (size_t)got : 0;
  return all->there;
}

/* A timed call waits until it has all it was asked for: wait for one message, then take what came with it. */
static size_t wait_for_one(drain *all, int timeout_ms) { return timeout_ms > 0 ? take_chunk(all, timeout_ms, 1) : 0; }

void drain_forget(drain *all, bool all_of_it) {
  size_t kept = 0;
  for (size_t i = all->at; i < all->there; i++) {
    kafka_message *message = all->chunk[i];
    bool of_partition = message->topic && message->partition >= 0;
    bool gone = all_of_it ||
                (of_partition && !spans_find(&all->assigned, kafka.topic_name(message->topic), message->partition));
    if (gone)
      kafka.message_destroy(message);
    else
      all->chunk[kept++] = message;
  }
  all->at = 0;
  all->there = kept;
}

static void learn_mean(drain *all, int64_t bytes, size_t records) {
  int64_t mean = bytes / (int64_t)records;
  all->mean_bytes = mean > all->mean_bytes ? mean : 1 + (3 * all->mean_bytes + mean) / 4; /* up at once, down slowly */
}

/* Copy what there is of the chunk, as far as the limits allow; returns how many. */
static size_t take_some(drain *all, int64_t records, int64_t bytes) {
  int64_t before = all->taken;
  size_t from = all->at;
  do
    take(all, all->chunk[all->at++]);
  while (all->at < all->there && --records > 0 && all->taken < bytes);
  size_t got = all->at - from;
  spent_give(&all->back, all->chunk + from, got, SPENT_POLLS * bytes);
  learn_mean(all, all->taken - before, got);
  return got;
}

bool drain_poll(drain *all, int timeout_ms, int64_t records, int64_t bytes) {
  all->taken = 0;
  all->out_of_memory = false;
  bool any = all->at < all->there || take_chunk(all, 0, next_chunk(all, records, bytes)) || wait_for_one(all, timeout_ms);
  if (!any) spent_clear(&all->back);
  while (all->at < all->there) {
    records -= (int64_t)take_some(all, records, bytes);
    if (records <= 0 || all->taken >= bytes || all->out_of_memory) break;
    take_chunk(all, 0, next_chunk(all, records, bytes));
  }
  end_run(all);
  if (all->out_of_memory) {
    lose_run(all);
    drain_forget(all, true);
  }
  return !all->out_of_memory;
}

int64_t drain_count(drain *all, int timeout_ms, int64_t records) {
  int64_t counted = 0;
  drain_forget(all, true);
  if (!take_chunk(all, 0, CHUNK)) wait_for_one(all, timeout_ms);
  while (all->there) {
    for (size_t i = 0; i < all->there; i++) counted += !all->chunk[i]->err;
    drain_forget(all, true);
    if (counted >= records) break;
    take_chunk(all, 0, CHUNK);
  }
  return counted;
}
