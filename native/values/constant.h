/* Bytes that a list of steps refers to. */
#ifndef COHORT_CONSTANT_H
#define COHORT_CONSTANT_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  const uint8_t *data;
  size_t size;
} constant;

#endif
