/* Growing columns of any shape: structs, arrays and maps of others.  A tree of columns is an array of them, parents first,
 * so that a step says by a number where it appends. */
#ifndef COHORT_TREE_H
#define COHORT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arrow/arrow.h"

/* The numbers are those of runtime/values/types.py, by which a tree is described. */
typedef enum { T_STRUCT, T_LIST, T_MAP, T_BOOLEAN, T_INT, T_LONG, T_FLOAT, T_DOUBLE, T_BYTES, T_STRING, T_DECIMAL,
  T_BYTE, T_SHORT, T_KINDS } tree_kind;

typedef struct {
  tree_kind kind;
  int32_t behind; /* the number of the first column that is not inside of this one */
  uint32_t width; /* bytes of a value, 0 where values have no fixed width; a boolean is a byte until it is exported */
  int64_t rows, capacity;
  int64_t nulls;
  uint8_t *bits; /* validity; absent until the first null, all ones for rows that aren't there yet */
  uint8_t *values;
  int32_t *offsets; /* of bytes, strings, lists and maps; rows + 1 of them */
  uint8_t *data;
  size_t used, room;
  int32_t most; /* bytes of `data`, or items of a list: what its offsets can tell */
  bool full;    /* it had to be larger than that, or than is allowed */
  size_t *allowed; /* the tree's */
} tree_column;

typedef struct {
  int32_t count;
  tree_column *columns;
  size_t *allowed; /* bytes that all columns together may still grow by, see tree_allow() */
} tree;

/* `described`: for each column its kind, and the number of columns inside of it, all levels counted.  `most`: bytes or items
 * of a column, INT32_MAX but in tests.  False when memory has run out (errno tells), or when this describes no tree. */
bool tree_new(tree *, const int32_t (*described)[2], int32_t count, int32_t most);
void tree_free(tree *);

/* What appends returns false when memory has run out, or when a column would be larger than its offsets can tell, or all of
 * them than is allowed, which tree_full() then says. */

/* What rows of so many bytes may grow the columns by: a null of a struct of many fields is one byte where it comes from, so
 * a small message could become more than there is memory.  As much as you like where nobody says this. */
void tree_allow(tree *, size_t bytes);

bool tree_full(const tree *);

bool tree_grow_rows(tree_column *);
bool tree_grow_data(tree_column *, size_t more);

/* A null, which in a struct is one in all of its fields. */
bool tree_null(tree *, int32_t column);

static inline bool tree_ready(tree_column *column) { return column->rows < column->capacity || tree_grow_rows(column); }

static inline bool tree_bytes(tree_column *column, const void *from, size_t length) {
  if (!tree_ready(column) || (length > column->room - column->used && !tree_grow_data(column, length))) return false;
  if (length) memcpy(column->data + column->used, from, length);
  column->used += length;
  column->offsets[++column->rows] = (int32_t)column->used;
  return true;
}

/* A list or a map that ends with the row which its items have reached. */
static inline bool tree_list(tree_column *column) {
  int64_t items = (column + 1)->rows;
  if (items > column->most) return column->full = true, false;
  if (!tree_ready(column)) return false;
  column->offsets[++column->rows] = (int32_t)items;
  return true;
}

/* Take back the rows behind so many, in all columns. */
void tree_cut(tree *, int64_t rows);

/* The same, in one column and what is inside of it. */
void tree_cut_column(tree *, int32_t column, int64_t rows);

/* Forget all rows, also half of one; the room stays for the next ones, unless it is out of the ordinary. */
void tree_clear(tree *);

/* Move the rows into `array` and forget them, or do nothing: false when memory has run out, or when the columns don't
 * fit each other, which is a mistake of whoever filled them. */
bool tree_export(tree *, struct ArrowArray *array);

#endif
