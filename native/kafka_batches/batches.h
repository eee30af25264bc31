/* One partition's part of a Fetch response: Kafka's record batches (magic 2), read record by record into columns.
 *
 * Layout: KIP-98, Kafka's DefaultRecordBatch and DefaultRecord.  Nothing here knows Python, sockets or librdkafka. */
#ifndef COHORT_BATCHES_H
#define COHORT_BATCHES_H

#include "arrow/columns.h"

/* An aborted transaction, as the broker lists them for read_committed. */
typedef struct {
  int64_t producer, first;
} aborted;

/* What a batch can be compressed by, as its attributes number them. */
typedef enum { CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD, CODECS } codec;

/* The batch that is being read; `record` is NULL between batches. */
typedef struct {
  const uint8_t *record, *end; /* what is there of its records: all of them unless `more` follow */
  bool more;
  size_t wanted; /* bytes from `record` on without which the next record can't be read */
  size_t unread; /* bytes in front of the next record that nobody wants, and that are not there yet */
  int64_t base, next; /* `next` follows its last offset, which need not be there any more */
  int64_t first_timestamp, max_timestamp;
  int32_t left; /* records */
  int32_t timestamp_type;
  codec by;
} batch;

typedef struct {
  const uint8_t *at, *end; /* the batches that have not been begun */
  int64_t position;        /* the next offset wanted */
  int64_t stop;            /* records from here on are not wanted */
  int64_t high_watermark;  /* no record lies at or behind it; -1: not known */
  int64_t largest;         /* bytes that a record may have, here and in the columns */
  aborted *transactions;   /* owned, in the order of their first offsets; those up to `begun` may be going on */
  size_t count, begun;
  batch now;
  int64_t begun_records, begun_bytes; /* of the batches so far, as they came, whatever becomes columns */
} batches;

typedef enum {
  BATCHES_GOING,      /* on the way: never the answer of batches_step() */
  BATCHES_DONE,       /* nothing is left */
  BATCHES_FULL,       /* the columns have all that was asked for */
  BATCHES_COMPRESSED, /* the records of `now` have to be decompressed: batches_unpacked() and step again */
  BATCHES_HUNGRY,     /* `now.wanted` bytes have to be there, from `now.record` on: batches_unpacked() and step again */
  BATCHES_DAMAGED,    /* what can't be: `why` says it */
  BATCHES_FORMAT,     /* batches of another format than this one */
  BATCHES_TIMESTAMP,  /* the record at the position has a timestamp that microseconds can't hold */
  BATCHES_HEADER,     /* the record at the position has a header key that is not UTF-8 */
  BATCHES_TOO_LARGE,  /* the record at the position is larger than `largest`, or than a column of Arrow */
  BATCHES_MEMORY      /* there is no more; the columns may only be freed */
} batches_state;

typedef struct {
  const char *why;      /* of BATCHES_DAMAGED */
  int64_t milliseconds; /* of BATCHES_TIMESTAMP */
  int64_t size;         /* of BATCHES_TOO_LARGE */
} batches_fault;

/* Where a fetch that follows these batches starts (not before `position`), and the leader epoch of the last of them
 * (-1: there is none), by the batches' frames alone. */
int64_t batches_ahead(const batches *, int32_t *epoch);

/* Append records to the columns until these have `rows` rows or `bytes` bytes, at least one; moves the position. */
batches_state batches_step(batches *, columns *, int64_t rows, int64_t bytes, batches_fault *);

/* The records of `now`, decompressed, those that have been read left out, or a piece of them that is not empty unless
 * nothing is left; `more`: others follow.  They have to stay where they are until the batch is over or hungry. */
void batches_unpacked(batches *, const void *records, size_t length, bool more);

#endif
