/* Growing columns: room doubles, and stays for the run after this one. */
#include "columns.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 256, FIRST_BYTES = 4096, FIRST_RUNS = 4 };

/* --- a name for every row ------------------------------------------------------------------- */

name_column *name_column_new(const char *name, int64_t rows) {
  size_t length = strlen(name);
  name_column *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  atomic_init(&made->holders, 1);
  made->rows = rows;
  made->offsets = malloc((size_t)(rows + 1) * sizeof *made->offsets);
  made->names = malloc((size_t)rows * length + 1);
  if (!made->offsets || !made->names) {
    name_column_drop(made);
    return NULL;
  }
  for (int64_t row = 0; row <= rows; row++) made->offsets[row] = (int32_t)(row * (int64_t)length);
  for (int64_t row = 0; row < rows; row++) memcpy(made->names + (size_t)row * length, name, length);
  return made;
}

void name_column_drop(name_column *column) {
  if (!column || atomic_fetch_sub(&column->holders, 1) > 1) return;
  free(column->offsets);
  free(column->names);
  free(column);
}

/* --- nulls ---------------------------------------------------------------------------------- */

/* All rows are valid until said otherwise: new bytes are all ones. */
static bool validity_reach(validity *valid, int64_t rows) {
  size_t needed = (size_t)(rows + 7) / 8;
  if (needed <= valid->capacity) return true;
  size_t capacity = valid->capacity ? valid->capacity : FIRST_ROWS / 8;
  while (capacity < needed) capacity *= 2;
  uint8_t *bits = realloc(valid->bits, capacity);
  if (!bits) return false;
  memset(bits + valid->capacity, 0xFF, capacity - valid->capacity);
  valid->bits = bits;
  valid->capacity = capacity;
  return true;
}

static bool validity_end_row(validity *valid, int64_t row, bool is_null) {
  if (!is_null && !valid->bits) return true;
  if (!validity_reach(valid, row + 1)) return false;
  if (is_null) {
    valid->bits[row / 8] &= (uint8_t)~(1u << (row % 8));
    valid->nulls++;
  }
  return true;
}

/* --- bytes ---------------------------------------------------------------------------------- */

static bool resize(void **block, size_t size) {
  void *moved = realloc(*block, size ? size : 1);
  if (!moved) return false;
  *block = moved;
  return true;
}

static bool bytes_reserve_rows(bytes_column *column, int64_t capacity) {
  if (!resize((void **)&column->offsets, (size_t)(capacity + 1) * sizeof(int32_t))) return false;
  if (!column->capacity) column->offsets[0] = 0;
  column->capacity = capacity;
  return true;
}

static bool bytes_reserve(bytes_column *column, size_t more) {
  size_t room = column->room ? column->room : FIRST_BYTES;
  while (room < column->used + more) room *= 2;
  if (!resize((void **)&column->data, room)) return false;
  column->room = room;
  return true;
}

bool bytes_overflow(const bytes_column *column, size_t more) { return more > INT32_MAX - column->used; }

bool bytes_make_room(bytes_column *column, size_t length, bool is_null) {
  if (column->rows == column->capacity && !bytes_reserve_rows(column, column->capacity ? 2 * column->capacity : FIRST_ROWS))
    return false;
  if (!validity_end_row(&column->valid, column->rows, is_null)) return false;
  return length <= column->room - column->used || bytes_reserve(column, length);
}

static void bytes_free(bytes_column *column) {
  free(column->valid.bits);
  free(column->offsets);
  free(column->data);
}

/* --- what is selected, and where its rows stand ---------------------------------------------- */

bool selection_read(selection *into, const char *fields, size_t count) {
  *into = (selection){0};
  if (!count || count > FIELDS) return false;
  for (size_t i = 0; i < count; i++) {
    uint8_t number = (uint8_t)fields[i];
    if (number >= FIELDS || into->has[number]) return false;
    into->has[number] = true;
    into->order[into->count++] = number;
  }
  return true;
}

bool offset_runs_begin(offset_runs *runs, int64_t offset, int64_t row) {
  if (runs->count == runs->room) {
    size_t room = runs->room ? 2 * runs->room : FIRST_RUNS;
    if (!resize((void **)&runs->all, room * sizeof *runs->all)) return false;
    runs->room = room;
  }
  runs->all[runs->count++] = (offset_run){offset, row};
  return true;
}

/* --- rows ----------------------------------------------------------------------------------- */

bool columns_grow_more(columns *all) {
  int64_t capacity = all->capacity ? 2 * all->capacity : FIRST_ROWS;
  size_t rows = (size_t)capacity;
  const bool *has = all->selected.has;
  if ((has[FIELD_OFFSET] && !resize((void **)&all->offsets, rows * sizeof *all->offsets)) ||
      (has[FIELD_TIMESTAMP] && !resize((void **)&all->timestamps, rows * sizeof *all->timestamps)) ||
      (has[FIELD_TIMESTAMP_TYPE] && !resize((void **)&all->types, rows * sizeof *all->types)) ||
      (has[FIELD_KEY] && !bytes_reserve_rows(&all->key, capacity)) ||
      (has[FIELD_VALUE] && !bytes_reserve_rows(&all->value, capacity)))
    return false;
  if (has[FIELD_HEADERS]) {
    if (!resize((void **)&all->headers.offsets, (rows + 1) * sizeof(int32_t))) return false;
    if (!all->capacity) all->headers.offsets[0] = 0;
  }
  all->capacity = capacity;
  return true;
}

bool columns_end_row(columns *all, int64_t offset, bool has_headers) {
  if (!all->runs.count || offset != all->runs.next)
    if (!offset_runs_begin(&all->runs, offset, all->rows)) return false;
  all->runs.next = offset + 1;
  if (all->selected.has[FIELD_HEADERS]) {
    if (!validity_end_row(&all->headers.valid, all->rows, !has_headers)) return false;
    all->headers.offsets[all->rows + 1] = (int32_t)all->headers.keys.rows;
  }
  all->rows++;
  return true;
}

static int64_t bytes_held(const bytes_column *column) {
  int64_t bits = column->valid.bits ? (column->rows + 7) / 8 : 0;
  return (int64_t)column->used + (column->rows + 1) * (int64_t)sizeof(int32_t) + bits;
}

int64_t columns_bytes(const columns *all) {
  static const uint8_t fixed[FIELDS] = {[FIELD_PARTITION] = 4, [FIELD_OFFSET] = 8, [FIELD_TIMESTAMP] = 8,
                                        [FIELD_TIMESTAMP_TYPE] = 4};
  const bool *has = all->selected.has;
  int64_t held = all->runs.count ? (int64_t)((all->runs.count - 1) * sizeof(offset_run)) : 0;
  for (int i = 0; i < all->selected.count; i++) held += all->rows * fixed[all->selected.order[i]];
  if (has[FIELD_KEY]) held += bytes_held(&all->key);
  if (has[FIELD_VALUE]) held += bytes_held(&all->value);
  if (!has[FIELD_HEADERS]) return held;
  int64_t lists = (all->rows + 1) * (int64_t)sizeof(int32_t) + (all->headers.valid.bits ? (all->rows + 7) / 8 : 0);
  return held + lists + bytes_held(&all->headers.keys) + bytes_held(&all->headers.values);
}

static void validity_clear(validity *valid) {
  free(valid->bits);
  *valid = (validity){0};
}

static void bytes_clear(bytes_column *column) {
  if (column->room > MOST_KEPT || (size_t)column->capacity > MOST_KEPT / sizeof *column->offsets) {
    bytes_free(column);
    *column = (bytes_column){0};
  }
  validity_clear(&column->valid);
  column->rows = 0;
  column->used = 0;
}

void columns_clear(columns *all) {
  bytes_clear(&all->key);
  bytes_clear(&all->value);
  bytes_clear(&all->headers.keys);
  bytes_clear(&all->headers.values);
  validity_clear(&all->headers.valid);
  all->runs.count = 0;
  all->rows = 0;
}

void columns_free(columns *all) {
  selection selected = all->selected;
  bytes_free(&all->key);
  bytes_free(&all->value);
  bytes_free(&all->headers.keys);
  bytes_free(&all->headers.values);
  free(all->offsets);
  free(all->timestamps);
  free(all->types);
  free(all->headers.offsets);
  free(all->headers.valid.bits);
  free(all->runs.all);
  *all = (columns){.selected = selected};
}
