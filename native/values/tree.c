/* Columns that grow: room doubles, and stays for the rows after these. */
#include "tree.h"

#include <stdlib.h>

enum { FIRST_ROWS = 256, FIRST_BYTES = 4096 };
enum { LEAST_ALLOWED = 256 << 20, TIMES_ALLOWED = 32 }; /* a column doubles, and a byte may become a decimal of 16 */

static const uint32_t widths[] = {[T_BOOLEAN] = 1, [T_INT] = 4, [T_LONG] = 8, [T_FLOAT] = 4, [T_DOUBLE] = 8, [T_DECIMAL] = 16,
                                 [T_BYTE] = 1, [T_SHORT] = 2};

static bool has_offsets(tree_kind kind) { return kind == T_BYTES || kind == T_STRING || kind == T_LIST || kind == T_MAP; }

/* --- made ------------------------------------------------------------------------------------- */

static int children_of(const tree *all, int32_t column) {
  int count = 0;
  for (int32_t child = column + 1; child < all->columns[column].behind; child = all->columns[child].behind) count++;
  return count;
}

/* A list has one child, a map two, a struct any, others none; and nobody's children reach out of it. */
static bool is_tree(const tree *all) {
  for (int32_t i = 0; i < all->count; i++) {
    const tree_column *column = &all->columns[i];
    if (column->behind <= i || column->behind > all->count) return false;
    for (int32_t child = i + 1; child < column->behind; child = all->columns[child].behind)
      if (all->columns[child].behind <= child || all->columns[child].behind > column->behind) return false;
    int wanted = column->kind == T_LIST ? 1 : column->kind == T_MAP ? 2 : 0;
    if (column->kind != T_STRUCT && children_of(all, i) != wanted) return false;
  }
  return all->count > 0 && all->columns[0].behind == all->count;
}

bool tree_new(tree *all, const int32_t (*described)[2], int32_t count, int32_t most) {
  all->count = count;
  all->columns = calloc((size_t)count + 1, sizeof *all->columns);
  all->allowed = malloc(sizeof *all->allowed);
  if (!all->columns || !all->allowed) return false;
  *all->allowed = SIZE_MAX;
  for (int32_t i = 0; i < count; i++) {
    if (described[i][0] < T_STRUCT || described[i][0] >= T_KINDS || described[i][1] < 0 || described[i][1] >= count - i)
      return false;
    all->columns[i].kind = (tree_kind)described[i][0];
    all->columns[i].behind = i + 1 + described[i][1];
    all->columns[i].width = described[i][0] >= T_BOOLEAN ? widths[described[i][0]] : 0;
    all->columns[i].most = most;
    all->columns[i].allowed = all->allowed;
  }
  return is_tree(all);
}

static void column_free(tree_column *column) {
  free(column->bits);
  free(column->values);
  free(column->offsets);
  free(column->data);
}

void tree_free(tree *all) {
  for (int32_t i = 0; all->columns && i < all->count; i++) column_free(&all->columns[i]);
  free(all->columns);
  free(all->allowed);
  *all = (tree){0};
}

/* --- filled ----------------------------------------------------------------------------------- */

static bool resize(void *block, size_t size) {
  void *moved = realloc(*(void **)block, size);
  if (moved) *(void **)block = moved;
  return moved != NULL;
}

static bool may_grow(tree_column *column, size_t bytes) {
  if (bytes > *column->allowed) return column->full = true, false;
  *column->allowed -= bytes;
  return true;
}

static bool grow_bits(tree_column *column, int64_t from, int64_t to) {
  if (!may_grow(column, (size_t)(to - from) / 8)) return false;
  if (!resize(&column->bits, (size_t)to / 8)) return false;
  memset(column->bits + from / 8, 0xFF, (size_t)(to - from) / 8);
  return true;
}

bool tree_grow_rows(tree_column *column) {
  int64_t capacity = column->capacity ? 2 * column->capacity : FIRST_ROWS;
  if (capacity > INT32_MAX) return column->full = true, false;
  size_t width = column->width + (has_offsets(column->kind) ? sizeof *column->offsets : 0);
  if (!may_grow(column, (size_t)(capacity - column->capacity) * width)) return false;
  if (column->width && !resize(&column->values, (size_t)capacity * column->width)) return false;
  if (has_offsets(column->kind)) {
    if (!resize(&column->offsets, (size_t)(capacity + 1) * sizeof *column->offsets)) return false;
    if (!column->capacity) column->offsets[0] = 0;
  }
  if (column->bits && !grow_bits(column, column->capacity, capacity)) return false;
  column->capacity = capacity;
  return true;
}

bool tree_grow_data(tree_column *column, size_t more) {
  size_t room = column->room ? column->room : FIRST_BYTES, most = (size_t)column->most;
  if (more > most - column->used) return column->full = true, false;
  while (room < column->used + more) room *= 2;
  if (room > most) room = most; /* what fits in the room is not counted again */
  if (!may_grow(column, room - column->room)) return false;
  if (!resize(&column->data, room)) return false;
  column->room = room;
  return true;
}

void tree_allow(tree *all, size_t bytes) {
  *all->allowed = bytes > SIZE_MAX / TIMES_ALLOWED ? SIZE_MAX : TIMES_ALLOWED * bytes;
  if (*all->allowed < LEAST_ALLOWED) *all->allowed = LEAST_ALLOWED;
}

bool tree_full(const tree *all) {
  for (int32_t i = 0; i < all->count; i++)
    if (all->columns[i].full) return true;
  return false;
}

bool tree_null(tree *all, int32_t at) {
  tree_column *column = &all->columns[at];
  if (!tree_ready(column)) return false;
  if (!column->bits && !grow_bits(column, 0, column->capacity)) return false;
  int64_t row = column->rows++;
  column->bits[row / 8] &= (uint8_t)~(1u << (row % 8));
  column->nulls++;
  if (column->width) memset(column->values + (size_t)row * column->width, 0, column->width);
  if (column->offsets) column->offsets[row + 1] = column->offsets[row];
  if (column->kind != T_STRUCT) return true;
  for (int32_t child = at + 1; child < column->behind; child = all->columns[child].behind)
    if (!tree_null(all, child)) return false;
  return true;
}

/* --- taken back ------------------------------------------------------------------------------- */

void tree_cut_column(tree *all, int32_t at, int64_t rows) {
  tree_column *column = &all->columns[at];
  /* A struct's fields may be behind it, or before it, when a record breaks off. */
  for (int64_t row = rows; column->nulls && row < column->rows; row++) {
    uint8_t bit = (uint8_t)(1u << (row % 8));
    if (column->bits[row / 8] & bit) continue;
    column->bits[row / 8] |= bit;
    column->nulls--;
  }
  if (column->rows > rows) column->rows = rows;
  int64_t last = column->offsets ? column->offsets[column->rows] : 0;
  if (column->kind == T_BYTES || column->kind == T_STRING) column->used = (size_t)last;
  int64_t items = column->kind == T_STRUCT ? rows : last;
  for (int32_t child = at + 1; child < column->behind; child = all->columns[child].behind)
    tree_cut_column(all, child, items);
}

void tree_cut(tree *all, int64_t rows) { tree_cut_column(all, 0, rows); }
