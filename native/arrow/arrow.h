/* Arrow's C data interface (arrow.apache.org/docs/format/CDataInterface.html): the two structures of an array and its type. */
#ifndef COHORT_ARROW_H
#define COHORT_ARROW_H

#include <stdint.h>

/* Numbers are copied as they are written, the lowest byte first, and Arrow's are in the order of the machine. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "this is written for machines with the lowest byte first"
#endif

struct ArrowSchema {
  const char *format;
  const char *name;
  const char *metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema **children;
  struct ArrowSchema *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void **buffers;
  struct ArrowArray **children;
  struct ArrowArray *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

#endif
