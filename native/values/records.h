/* A column of records as Python gives it, what is told of the bad ones, and the way back: what the decoders of all formats
 * have in common.  Knows Python, by its stable ABI. */
#ifndef COHORT_RECORDS_H
#define COHORT_RECORDS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "constant.h"
#include "tree.h"

enum { MOST_FIGURES = 5 };

/* A column as Arrow has it. */
typedef struct {
  Py_buffer validity, offsets, data;
  int64_t first, rows;
  int framed;
} records;

/* Bad rows, so many figures of each: the row comes first. */
typedef struct {
  int64_t (*all)[MOST_FIGURES];
  size_t count, room;
} bad_rows;

/* Take a call's arguments, the last of which is what takes the answer; `framed` where the format knows a frame.  False with
 * an exception set; true: records_release() is owed. */
bool records_given(records *, PyObject *arguments, bool framed, PyObject **take);
void records_release(records *);

/* Where a row's bytes are; NULL where it is null. */
static inline const uint8_t *row_bytes(const records *from, int64_t row, size_t *size) {
  static const uint8_t nothing;
  int64_t at = from->first + row;
  const uint8_t *bits = from->validity.buf;
  const int32_t *offsets = from->offsets.buf;
  if (bits && !(bits[at / 8] >> (at % 8) & 1)) return NULL;
  int32_t start = offsets[at], end = offsets[at + 1];
  *size = start >= 0 && start <= end && end <= from->data.len ? (size_t)(end - start) : 0;
  return *size ? (const uint8_t *)from->data.buf + start : &nothing;
}

/* The bytes of all rows. */
static inline size_t records_size(const records *from) {
  const int32_t *offsets = from->offsets.buf;
  int64_t size = from->rows ? (int64_t)offsets[from->first + from->rows] - offsets[from->first] : 0;
  return size < 0 || size > from->data.len ? 0 : (size_t)size;
}

/* False when memory has run out. */
bool bad_note(bad_rows *, const int64_t figures[MOST_FIGURES]);

/* A list of tuples of so many figures; NULL with an exception set. */
PyObject *bad_list(const bad_rows *, int figures);

/* What `take` makes of the rows, which are released if it doesn't; NULL with an exception set. */
PyObject *records_taken(struct ArrowArray *, PyObject *take);

/* Set the exception for rows that could not be read to the end: a column was full, or memory has run out. */
void records_failed(bool full);

/* Steps, a table and constants in one piece of memory, in this order; NULL with an exception set. */
void *list_copied(const Py_buffer *steps, const Py_buffer *table, PyObject *constants, const constant **all);

#endif
