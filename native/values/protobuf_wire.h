/* How Protobuf writes values, as Google's Java library reads them: of a number that is too long the lowest bits count. */
#ifndef COHORT_PROTOBUF_WIRE_H
#define COHORT_PROTOBUF_WIRE_H

#include "protobuf.h"

enum { MOST_DEPTH = 100, MOST_VARINT = 10 };

/* A number, or `number` bytes. */
typedef struct {
  const uint8_t *at;
  uint64_t number;
} value;

static __attribute__((noinline)) protobuf_reason long_varint(const uint8_t **at, const uint8_t *end, uint64_t *number) {
  uint64_t found = 0;
  for (int place = 0; place < MOST_VARINT; place++) {
    if (*at + place == end) return PB_TRUNCATED;
    uint64_t byte = (*at)[place];
    found |= (byte & 0x7F) << (7 * place); /* of the tenth byte one bit counts */
    if (byte >= 0x80) continue;
    *at += place + 1;
    *number = found;
    return PB_GOOD;
  }
  return PB_VARINT;
}

static inline __attribute__((always_inline)) protobuf_reason read_varint(const uint8_t **at, const uint8_t *end, uint64_t *number) {
  if (*at < end && **at < 0x80) {
    *number = *(*at)++;
    return PB_GOOD;
  }
  if (end - *at >= 2 && (*at)[1] < 0x80) {
    *number = ((*at)[0] & 0x7Fu) | (uint64_t)(*at)[1] << 7;
    *at += 2;
    return PB_GOOD;
  }
  const uint8_t *from = *at; /* what the call may change is in no register */
  uint64_t found = 0;
  protobuf_reason why = long_varint(&from, end, &found);
  *at = from;
  *number = found;
  return why;
}

static inline protobuf_reason read_tag(const uint8_t **at, const uint8_t *end, uint32_t *tag) {
  uint64_t number;
  protobuf_reason why = read_varint(at, end, &number);
  if (why) return why;
  *tag = (uint32_t)number;
  return *tag >> 3 ? PB_GOOD : PB_NUMBER;
}

static inline protobuf_reason read_fixed(const uint8_t **at, const uint8_t *end, size_t size, value *found) {
  if ((size_t)(end - *at) < size) return PB_TRUNCATED;
  found->number = 0;
  memcpy(&found->number, *at, size);
  *at += size;
  return PB_GOOD;
}

static inline protobuf_reason read_sized(const uint8_t **at, const uint8_t *end, value *found) {
  protobuf_reason why = read_varint(at, end, &found->number);
  if (why) return why;
  found->number = (uint32_t)found->number;
  if (found->number > INT32_MAX) return PB_LENGTH;
  if (found->number > (size_t)(end - *at)) return PB_TRUNCATED;
  found->at = *at;
  *at += found->number;
  return PB_GOOD;
}

static protobuf_reason read_group(const uint8_t **at, const uint8_t *end, uint32_t tag, int depth, value *found);

static inline __attribute__((always_inline)) protobuf_reason read_value(const uint8_t **at, const uint8_t *end, uint32_t tag, int depth, value *found) {
  switch (tag & 7) {
    case WIRE_VARINT: return read_varint(at, end, &found->number);
    case WIRE_I64: return read_fixed(at, end, sizeof(int64_t), found);
    case WIRE_I32: return read_fixed(at, end, sizeof(int32_t), found);
    case WIRE_LEN: return read_sized(at, end, found);
    case WIRE_SGROUP: return read_group(at, end, tag, depth + 1, found);
    case WIRE_EGROUP: return PB_GROUP_END;
    default: return PB_WIRE_TYPE;
  }
}

static protobuf_reason read_group(const uint8_t **at, const uint8_t *end, uint32_t tag, int depth, value *found) {
  if (depth > MOST_DEPTH) return PB_DEPTH;
  const uint8_t *start = *at;
  for (;;) {
    const uint8_t *before = *at;
    uint32_t inner;
    value passed;
    protobuf_reason why = read_tag(at, end, &inner);
    if (why) return why;
    if (inner == ((tag & ~7u) | WIRE_EGROUP)) {
      *found = (value){start, (uint64_t)(before - start)};
      return PB_GOOD;
    }
    if ((why = read_value(at, end, inner, depth, &passed))) return why;
  }
}

static int64_t unzigzag(uint64_t number) { return (int64_t)(number >> 1) ^ -(int64_t)(number & 1); }

#endif
