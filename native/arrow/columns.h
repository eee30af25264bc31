/* The growing columns of one run of records, and their way into Arrow. */
#ifndef COHORT_COLUMNS_H
#define COHORT_COLUMNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "arrow.h"

/* A topic's name, written again and again: every batch shows a part of it, nobody copies it. */
typedef struct {
  atomic_int holders;
  int64_t rows;
  int32_t *offsets;
  char *names;
} name_column;

name_column *name_column_new(const char *name, int64_t rows);
void name_column_drop(name_column *);

/* One bit per row, absent until the first null. */
typedef struct {
  uint8_t *bits;
  size_t capacity; /* bytes */
  int64_t nulls;
} validity;

/* binary or string: row i is data[offsets[i] .. offsets[i + 1]) */
typedef struct {
  validity valid;
  int32_t *offsets;
  int64_t rows, capacity;
  char *data;
  size_t used, room;
} bytes_column;

/* list<struct<key, value>> */
typedef struct {
  validity valid;
  int32_t *offsets;
  bytes_column keys, values;
} headers_column;

/* What a record has, by the numbers of sparkcohort.runtime.values.columns.Field. */
typedef enum {
  FIELD_KEY,
  FIELD_VALUE,
  FIELD_TOPIC,
  FIELD_PARTITION,
  FIELD_OFFSET,
  FIELD_TIMESTAMP,
  FIELD_TIMESTAMP_TYPE,
  FIELD_HEADERS,
  FIELDS
} field;

/* Which of it becomes columns, and in which order; nothing else is built. */
typedef struct {
  int count;
  uint8_t order[FIELDS];
  bool has[FIELDS];
} selection;

/* From row `row` on offsets grow by one. */
typedef struct {
  int64_t offset, row;
} offset_run;

/* The offsets of all rows, whether they are a column or not: a batch is cut by them. */
typedef struct {
  offset_run *all;
  size_t count, room;
  int64_t next; /* what would go on with the last run */
} offset_runs;

typedef struct {
  int64_t rows, capacity;
  selection selected;
  offset_runs runs;
  bytes_column key, value;
  int64_t *offsets, *timestamps;
  int32_t *types;
  headers_column headers;
} columns;

/* Fields by their numbers; false for none at all, for one twice, and for what is no field. */
bool selection_read(selection *, const char *fields, size_t count);

/* Everything below returns false when memory has run out, true else.  A column that has failed may only be freed. */

bool bytes_make_room(bytes_column *, size_t length, bool is_null);

/* Append to a column; `data` NULL is a null.  Here, since it is called twice a record and mostly finds room. */
static inline bool bytes_append(bytes_column *column, const void *data, size_t length) {
  bool ready = data && !column->valid.bits && column->rows < column->capacity && length <= column->room - column->used;
  if (!ready && !bytes_make_room(column, length, data == NULL)) return false;
  if (length) memcpy(column->data + column->used, data, length);
  column->used += length;
  column->offsets[++column->rows] = (int32_t)column->used;
  return true;
}

/* Whether a column has no room for `more` bytes, which its offsets (32 bits) could not tell any more. */
bool bytes_overflow(const bytes_column *, size_t more);

bool columns_grow_more(columns *);

bool offset_runs_begin(offset_runs *, int64_t offset, int64_t row);

/* Make room for one more row. */
static inline bool columns_grow(columns *all) { return all->rows < all->capacity || columns_grow_more(all); }

/* End the row of which all selected columns have been written; its headers are those appended since the last. */
bool columns_end_row(columns *, int64_t offset, bool has_headers);

/* What the rows hold of their own: the topic's name left out, and the first run of offsets, which every batch has. */
int64_t columns_bytes(const columns *);

enum { MOST_KEPT = 4 << 20 }; /* room of a column; what is larger is out of the ordinary */

/* Forget the rows; the room stays for the next ones, MOST_KEPT of a column at most. */
void columns_clear(columns *);

void columns_free(columns *);

/* Move the rows into `array` (a struct array of the selected fields), or do nothing; `name` where the topic is selected. */
bool columns_export(columns *, int32_t partition, name_column *name, struct ArrowArray *array);

#endif
