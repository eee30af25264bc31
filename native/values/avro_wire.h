/* How Avro writes values: numbers of one to ten bytes, zigzag, and what has its length before it. */
#ifndef COHORT_AVRO_WIRE_H
#define COHORT_AVRO_WIRE_H

#include "avro.h"

enum { MOST_FRAMES = 256, INT_BYTES = 5, LONG_BYTES = 10 };

typedef struct {
  int64_t step; /* of the list, or where a routine was called */
  int64_t left; /* items of its block */
} frame;

typedef struct {
  const uint8_t *start, *at, *end;
  const uint8_t *record_start, *record_at, *record_end; /* while a default is read */
  const avro_list *list;
  tree *into;
  const avro_step *next;
  int64_t empty;
  int depth;
  frame frames[MOST_FRAMES];
} reader;

static inline size_t left(const reader *from) { return (size_t)(from->end - from->at); }

static inline int64_t unzigzag(uint64_t number) { return (int64_t)(number >> 1) ^ -(int64_t)(number & 1); }

static inline __attribute__((always_inline)) avro_reason long_varint(reader *from, int64_t *number, int most, uint64_t limit) {
  uint64_t found = 0;
  for (int place = 0; place < most; place++) {
    if (from->at + place == from->end) return AVRO_TRUNCATED;
    uint64_t byte = from->at[place];
    /* The tenth byte has room for one bit. */
    if (place == LONG_BYTES - 1 && byte > 1) return AVRO_VARINT;
    found |= (byte & 0x7F) << (7 * place);
    if (byte >= 0x80) continue;
    if (found > limit) return AVRO_VARINT;
    from->at += place + 1;
    *number = unzigzag(found);
    return AVRO_GOOD;
  }
  return AVRO_VARINT;
}

static __attribute__((noinline)) avro_reason long_long(reader *from, int64_t *number) {
  return long_varint(from, number, LONG_BYTES, UINT64_MAX);
}

static __attribute__((noinline)) avro_reason long_int(reader *from, int64_t *number) {
  return long_varint(from, number, INT_BYTES, UINT32_MAX);
}

/* Mostly it is one byte or two; the rest is a call, or this would not be inlined.  Such a call may change what its argument
 * points to, which is then in no register: hence `found`. */
static inline __attribute__((always_inline)) bool read_short(reader *from, int64_t *number) {
  const uint8_t *at = from->at;
  if (left(from) >= 1 && at[0] < 0x80) {
    *number = unzigzag(at[0]);
    from->at++;
    return true;
  }
  if (left(from) >= 2 && at[1] < 0x80) {
    *number = unzigzag((at[0] & 0x7Fu) | (uint64_t)at[1] << 7);
    from->at += 2;
    return true;
  }
  return false;
}

static inline avro_reason read_long(reader *from, int64_t *number) {
  if (read_short(from, number)) return AVRO_GOOD;
  int64_t found = 0;
  avro_reason why = long_long(from, &found);
  *number = found;
  return why;
}

static inline avro_reason read_int(reader *from, int64_t *number) {
  if (read_short(from, number)) return AVRO_GOOD;
  int64_t found = 0;
  avro_reason why = long_int(from, &found);
  *number = found;
  return why;
}

static inline avro_reason take(reader *from, int64_t size, const uint8_t **found) {
  if (size < 0) return AVRO_LENGTH;
  if ((uint64_t)size > left(from)) return AVRO_TRUNCATED;
  *found = from->at;
  from->at += size;
  return AVRO_GOOD;
}

static inline avro_reason take_sized(reader *from, const uint8_t **found, int64_t *size) {
  avro_reason why = read_long(from, size);
  return why ? why : take(from, *size, found);
}

#endif
