/* Names of fields: told apart by their length and three of their letters, mostly. */
#ifndef COHORT_JSON_NAMES_H
#define COHORT_JSON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t name_hash(const char *name, size_t length) {
  const unsigned char *at = (const unsigned char *)name;
  uint32_t some = length ? at[0] | (uint32_t)at[length / 2] << 8 | (uint32_t)at[length - 1] << 16 : 0;
  uint32_t mixed = (some ^ (uint32_t)length << 24) * 0x9E3779B1u;
  return mixed ^ mixed >> 15;
}

/* Names are short: a call would take longer than the comparison.  The last piece overlaps the one before. */
static inline bool name_equals(const char *one, const char *other, size_t length) {
  uint64_t a, b;
  uint32_t c, d;
  if (length < sizeof c) {
    for (size_t at = 0; at < length; at++)
      if (one[at] != other[at]) return false;
    return true;
  }
  if (length < sizeof a) {
    memcpy(&c, one, sizeof c), memcpy(&d, other, sizeof d);
    if (c != d) return false;
    memcpy(&c, one + length - sizeof c, sizeof c), memcpy(&d, other + length - sizeof d, sizeof d);
    return c == d;
  }
  for (size_t at = 0; at + sizeof a < length; at += sizeof a) {
    memcpy(&a, one + at, sizeof a), memcpy(&b, other + at, sizeof b);
    if (a != b) return false;
  }
  memcpy(&a, one + length - sizeof a, sizeof a), memcpy(&b, other + length - sizeof b, sizeof b);
  return a == b;
}

#endif
