/* Names of fields: told apart by their length and three of their letters, mostly. */
#ifndef COHORT_JSON_NAMES_H
#define COHORT_JSON_NAMES_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t name_hash(const char *name, size_t length) {
  const unsigned char *at = (const unsigned char *)name;
  uint32_t some = length ? at[0] | (uint32_t)at[length / 2] << 8 | (uint32_t)at[length - 1] << 16 : 0;
  uint32_t mixed = (some ^ (uint32_t)length << 24) * 0x9E3779B1u;
  return mixed ^ mixed >> 15;
}

#endif
