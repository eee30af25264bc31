/* Every length is checked before it is followed: the bytes come from a network and a disk. */
#include "batches.h"

#include <string.h>

#include "arrow/utf8.h"
#include "crc32c.h"
#include "layout.h"

enum { MICROSECONDS = 1000, DONE_WITH = -1 };
enum { ROW_BYTES = 40, HEADER_BYTES = 9 }; /* in the columns, beside the bytes themselves: numbers, places, bits */
enum { LONGEST_NUMBER = 10, HEAD_OF_RECORD = 3 * LONGEST_NUMBER + 1 }; /* up to its offset */

static uint64_t big(const uint8_t *at, int bytes) {
  uint64_t number = 0;
  for (int i = 0; i < bytes; i++) number = number << 8 | at[i];
  return number;
}

static int16_t int16_at(const uint8_t *at) { return (int16_t)big(at, 2); }
static int32_t int32_at(const uint8_t *at) { return (int32_t)big(at, 4); }
static int64_t int64_at(const uint8_t *at) { return (int64_t)big(at, 8); }

/* --- frames --------------------------------------------------------------------------------- */

/* The bytes of the batch at `at`, 0 if it isn't there whole: brokers cut the last one of a response. */
static size_t whole_batch(const uint8_t *at, const uint8_t *end) {
  if (end - at < HEADER) return 0;
  int32_t length = int32_at(at + BATCH_LENGTH);
  return length < 0 || length > end - at - FRAME ? 0 : (size_t)length + FRAME;
}

int64_t batches_ahead(const batches *all, int32_t *epoch) {
  int64_t ahead = all->position;
  *epoch = -1;
  size_t size;
  for (const uint8_t *at = all->at; (size = whole_batch(at, all->end)) > 0; at += size) {
    if (size < HEADER || at[MAGIC] != 2) break;
    int64_t next;
    if (__builtin_add_overflow(int64_at(at + BASE_OFFSET), (int64_t)int32_at(at + LAST_OFFSET_DELTA) + 1, &next)) break;
    if (next > ahead) ahead = next;
    *epoch = int32_at(at + LEADER_EPOCH);
  }
  return ahead;
}

/* --- transactions --------------------------------------------------------------------------- */

/* Whether the batch is of an aborted transaction.  The list is in order, as are the batches: a transaction has
 * begun when its first offset is not behind the batch, and is over with its producer's abort marker. */
static bool is_aborted(batches *all, int64_t last, int64_t producer, bool control, bool abort_marker) {
  while (all->begun < all->count && all->transactions[all->begun].first <= last) all->begun++;
  for (size_t i = 0; i < all->begun; i++) {
    if (all->transactions[i].producer != producer) continue;
    if (abort_marker) all->transactions[i].producer = DONE_WITH;
    return !control;
  }
  return false;
}

/* --- numbers of one to ten bytes -------------------------------------------------------------- */

/* What is behind a number, seven bits a byte; NULL when it doesn't end before `end`. */
static __attribute__((noinline)) const uint8_t *behind_number(const uint8_t *from, const uint8_t *end, uint64_t *number) {
  *number = 0;
  for (int shift = 0; from < end && shift < 64; shift += 7) {
    uint8_t byte = *from++;
    *number |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return from;
  }
  return NULL;
}

/* Zigzag; false when it doesn't end before `end`.  Mostly it is one byte or two; the rest is a call: unrolled six times in a
 * record, the loop leaves no registers to anything else. */
static inline __attribute__((always_inline)) bool read_long(const uint8_t **at, const uint8_t *end, int64_t *number) {
  const uint8_t *from = *at;
  uint64_t raw;
  if (from < end && from[0] < 0x80)
    raw = *from++;
  else if (end - from >= 2 && from[1] < 0x80) {
    raw = (from[0] & 0x7Fu) | (uint64_t)from[1] << 7;
    from += 2;
  } else {
    uint64_t found;
    if (!(from = behind_number(from, end, &found))) return false;
    raw = found;
  }
  *at = from;
  *number = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
  return true;
}

static inline bool read_length(const uint8_t **at, const uint8_t *end, int64_t *length) {
  return read_long(at, end, length) && *length >= -1 && *length <= end - *at;
}

/* Bytes with their length before them; -1 is null. */
static inline bool read_bytes(const uint8_t **at, const uint8_t *end, const uint8_t **bytes, size_t *length) {
  int64_t said;
  if (!read_length(at, end, &said)) return false;
  *bytes = said < 0 ? NULL : *at;
  *length = said < 0 ? 0 : (size_t)said;
  *at += *length;
  return true;
}

/* --- batches -------------------------------------------------------------------------------- */

static const char UNREADABLE[] = "the headers of a record can't be read";
static const char CONTRADICTION[] = "a record's lengths contradict each other";

static batches_state damaged(batches_fault *fault, const char *why) {
  fault->why = why;
  return BATCHES_DAMAGED;
}

/* The type of a control batch's marker; -1 if it can't be read. */
static int marker(const uint8_t *at, const uint8_t *end) {
  int64_t number;
  const uint8_t *key;
  size_t length;
  if (!read_long(&at, end, &number) || at++ >= end) return -1; /* length and attributes */
  if (!read_long(&at, end, &number) || !read_long(&at, end, &number) || !read_bytes(&at, end, &key, &length)) return -1;
  return length < 4 ? -1 : int16_at(key + 2);
}

static const char *wrong_frame(const batches *all, const uint8_t *at, size_t size) {
  if (size < HEADER) return "a batch is shorter than its header";
  if ((uint32_t)big(at + CRC, 4) != crc32c(at + ATTRIBUTES, size - ATTRIBUTES))
    return "the checksum (CRC) of a batch is wrong";
  int64_t last;
  if (__builtin_add_overflow(int64_at(at + BASE_OFFSET), (int64_t)int32_at(at + LAST_OFFSET_DELTA), &last) ||
      int64_at(at + BASE_OFFSET) < 0 || int32_at(at + LAST_OFFSET_DELTA) < 0 || last == INT64_MAX)
    return "a batch has offsets that can't be";
  /* The base offset is outside the checksum; brokers answer from the batch that holds the position, in order. */
  if (last < all->position) return "a batch comes again, or its offset is damaged";
  /* Not when the records before it are here, too: a broker reads its log after it has noted where that ends. */
  if (all->high_watermark >= 0 && int64_at(at + BASE_OFFSET) >= all->high_watermark &&
      int64_at(at + BASE_OFFSET) > all->position)
    return "a batch lies behind the end of the log";
  if (int32_at(at + RECORDS_COUNT) < 0) return "a batch has a negative number of records";
  return NULL;
}

/* Begin the next batch, or pass over it: `now.record` tells. */
static batches_state begin_batch(batches *all, batches_fault *fault) {
  const uint8_t *at = all->at;
  size_t size = whole_batch(at, all->end);
  /* First of all: a message of an older format can be shorter than a batch's header. */
  if (all->end - at > MAGIC && at[MAGIC] != 2) return BATCHES_FORMAT;
  if (all->end - at >= HEADER && int32_at(at + BATCH_LENGTH) < 0) return damaged(fault, "a batch has a negative length");
  if (!size) return BATCHES_DONE;
  const char *why = wrong_frame(all, at, size);
  if (why) return damaged(fault, why);
  int attributes = int16_at(at + ATTRIBUTES);
  batch *now = &all->now;
  *now = (batch){.end = at + size,
                 .base = int64_at(at + BASE_OFFSET),
                 .first_timestamp = int64_at(at + FIRST_TIMESTAMP),
                 .max_timestamp = int64_at(at + MAX_TIMESTAMP),
                 .left = int32_at(at + RECORDS_COUNT),
                 .timestamp_type = (attributes & LOG_APPEND_TIME) != 0,
                 .by = (codec)(attributes & CODEC_BITS)};
  now->next = now->base + int32_at(at + LAST_OFFSET_DELTA) + 1;
  bool control = (attributes & CONTROL) != 0;
  bool abort_marker = control && marker(at + HEADER, now->end) == ABORT_MARKER;
  bool hidden = (attributes & TRANSACTIONAL) != 0 &&
                is_aborted(all, now->next - 1, int64_at(at + PRODUCER_ID), control, abort_marker);
  if (!control && !hidden && now->by >= CODECS) return damaged(fault, "a batch is compressed by a codec that nobody knows");
  all->at += size; /* not before: a fault comes again each time */
  if (control || hidden) {
    all->position = now->next;
    return BATCHES_GOING;
  }
  all->begun_records += now->left;
  all->begun_bytes += (int64_t)size;
  if (!now->left) now->by = CODEC_NONE; /* compaction has left the frame */
  now->record = at + HEADER;
  return BATCHES_GOING;
}

void batches_unpacked(batches *all, const void *records, size_t length, bool more) {
  static const uint8_t none;
  batch *now = &all->now;
  size_t passed = now->unread < length ? now->unread : length;
  now->record = records ? (const uint8_t *)records + passed : &none; /* it is not over: its records are missing */
  now->end = now->record + (length - passed);
  now->unread -= passed;
  now->more = more;
  now->by = CODEC_NONE;
}

/* --- records -------------------------------------------------------------------------------- */

typedef struct {
  int64_t offset, milliseconds, headers; /* the last is how many */
  const uint8_t *key, *value, *rest, *end; /* the headers are in [rest, end) */
  size_t key_length, value_length;
} record;

static inline bool read_record(const batch *now, record *one) {
  const uint8_t *at = now->record;
  int64_t length, time, offset;
  if (!read_length(&at, now->end, &length) || length < 1) return false;
  one->end = at + length;
  at++; /* attributes: none are in use */
  if (!read_long(&at, one->end, &time) || !read_long(&at, one->end, &offset)) return false;
  if (!read_bytes(&at, one->end, &one->key, &one->key_length)) return false;
  if (!read_bytes(&at, one->end, &one->value, &one->value_length)) return false;
  if (!read_long(&at, one->end, &one->headers) || one->headers < 0) return false;
  one->rest = at;
  if (offset < 0 || offset >= now->next - now->base) return false;
  one->offset = now->base + offset;
  one->milliseconds = now->max_timestamp;
  return now->timestamp_type || !__builtin_add_overflow(now->first_timestamp, time, &one->milliseconds);
}

/* What to do about a record that isn't there whole while more follows: BATCHES_GOING if it isn't wanted. */
static batches_state miss_record(batches *all, batches_fault *fault) {
  batch *now = &all->now;
  const uint8_t *at = now->record;
  int64_t length, time, offset;
  size_t there = (size_t)(now->end - at);
  if (now->unread) {
    now->wanted = 1;
    return BATCHES_HUNGRY;
  }
  bool whole_head = there >= HEAD_OF_RECORD;
  bool known = read_long(&at, now->end, &length);
  if (known && (length < 1 || length <= now->end - at)) return damaged(fault, CONTRADICTION);
  const uint8_t *begin = at;
  if (!known || at++ >= now->end || !read_long(&at, now->end, &time) || !read_long(&at, now->end, &offset)) {
    now->wanted = HEAD_OF_RECORD;
    return whole_head ? damaged(fault, CONTRADICTION) : BATCHES_HUNGRY;
  }
  if (offset < 0 || offset >= now->next - now->base) return damaged(fault, CONTRADICTION);
  if (now->base + offset < all->position) {
    now->unread = (size_t)(length - (now->end - begin));
    now->record = now->end;
    now->left--;
    return BATCHES_GOING;
  }
  if (now->base + offset >= all->stop) {
    now->left = 0;
    return BATCHES_GOING;
  }
  if (length > all->largest) {
    all->position = now->base + offset;
    fault->size = length;
    return BATCHES_TOO_LARGE;
  }
  now->wanted = (size_t)(begin - now->record) + (size_t)length;
  return BATCHES_HUNGRY;
}

/* What a record takes in the columns; -1 if it can't have so many headers. */
static inline int64_t cost_of(const record *one, const bool *has) {
  int64_t cost = ROW_BYTES, bytes = one->end - one->rest;
  if (has[FIELD_KEY]) cost += (int64_t)one->key_length;
  if (has[FIELD_VALUE]) cost += (int64_t)one->value_length;
  if (!has[FIELD_HEADERS] || !one->headers) return cost;
  return one->headers > bytes / 2 ? -1 : cost + bytes + one->headers * HEADER_BYTES;
}

static batches_state append_headers(headers_column *into, const record *one, batches_fault *fault) {
  const uint8_t *at = one->rest, *name, *value;
  size_t name_length, value_length;
  for (int64_t i = 0; i < one->headers; i++) {
    if (!read_bytes(&at, one->end, &name, &name_length) || !name || !read_bytes(&at, one->end, &value, &value_length))
      return damaged(fault, UNREADABLE);
    if (!is_utf8(name, name_length)) return BATCHES_HEADER;
    if (bytes_overflow(&into->keys, name_length) || bytes_overflow(&into->values, value_length)) return BATCHES_TOO_LARGE;
    if (!bytes_append(&into->keys, name, name_length) || !bytes_append(&into->values, value, value_length))
      return BATCHES_MEMORY;
  }
  return BATCHES_GOING;
}

static inline batches_state append(columns *rows, const bool *has, const record *one, int32_t timestamp_type,
                                   batches_fault *fault) {
  if (!columns_grow(rows)) return BATCHES_MEMORY;
  int64_t at = rows->rows;
  if (has[FIELD_TIMESTAMP] && __builtin_mul_overflow(one->milliseconds, MICROSECONDS, &rows->timestamps[at])) {
    fault->milliseconds = one->milliseconds;
    return BATCHES_TIMESTAMP;
  }
  if ((has[FIELD_KEY] && bytes_overflow(&rows->key, one->key_length)) ||
      (has[FIELD_VALUE] && bytes_overflow(&rows->value, one->value_length)))
    return BATCHES_TOO_LARGE;
  if (has[FIELD_TIMESTAMP_TYPE]) rows->types[at] = timestamp_type;
  if (has[FIELD_OFFSET]) rows->offsets[at] = one->offset;
  if (has[FIELD_HEADERS]) { /* first of all that grows: a key without a row would do harm */
    batches_state state = append_headers(&rows->headers, one, fault);
    if (state != BATCHES_GOING) return state;
  }
  bool whole = (!has[FIELD_KEY] || bytes_append(&rows->key, one->key, one->key_length)) &&
               (!has[FIELD_VALUE] || bytes_append(&rows->value, one->value, one->value_length)) &&
               columns_end_row(rows, one->offset, one->headers > 0);
  return whole ? BATCHES_GOING : BATCHES_MEMORY;
}

/* BATCHES_GOING: the batch is over. */
static batches_state take_records(batches *all, columns *rows, int64_t most, int64_t *bytes, batches_fault *fault) {
  batch *now = &all->now;
  record one;
  bool has[FIELDS]; /* a copy: nothing that is written can change it */
  memcpy(has, rows->selected.has, sizeof has);
  while (now->left > 0) {
    if (now->unread || !read_record(now, &one)) {
      batches_state state = now->more ? miss_record(all, fault) : damaged(fault, CONTRADICTION);
      if (state != BATCHES_GOING) return state;
      continue;
    }
    if (one.offset >= all->stop) break;
    if (one.offset >= all->position) { /* else the batch began before what was asked for */
      int64_t cost = cost_of(&one, has);
      if (rows->rows && (rows->rows >= most || *bytes < cost)) return BATCHES_FULL;
      batches_state state = cost > all->largest ? BATCHES_TOO_LARGE
                            : cost < 0          ? damaged(fault, UNREADABLE)
                                                : append(rows, has, &one, now->timestamp_type, fault);
      fault->size = cost;
      if (state != BATCHES_GOING) {
        all->position = one.offset;
        return state;
      }
      all->position = one.offset + 1;
      *bytes -= cost;
    }
    now->left--;
    now->record = one.end;
  }
  now->record = NULL;
  if (all->position < now->next) all->position = now->next;
  return BATCHES_GOING;
}

batches_state batches_step(batches *all, columns *rows, int64_t most, int64_t bytes, batches_fault *fault) {
  bytes -= columns_bytes(rows);
  batches_state state = BATCHES_GOING;
  while (state == BATCHES_GOING) {
    if (!all->now.record)
      state = all->position < all->stop ? begin_batch(all, fault) : BATCHES_DONE;
    else if (all->now.by != CODEC_NONE)
      state = BATCHES_COMPRESSED;
    else
      state = take_records(all, rows, most, &bytes, fault);
  }
  return state == BATCHES_TOO_LARGE && rows->rows ? BATCHES_FULL : state; /* it comes first next time */
}
