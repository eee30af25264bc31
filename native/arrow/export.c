/* Columns on their way into Arrow's C data interface: what their rows take, and no more, in one block;
 * only what is large beyond the ordinary is handed over as it is.
 *
 * The block has one owner, which counts the arrays that show it: the struct array, its fields and their children.  An
 * importer may keep any of them, in any thread, longer than the others. */
#include <stdlib.h>

#include "blocks.h"
#include "columns.h"

enum { ENTRY = FIELDS, KEYS, VALUES, ARRAYS, BUFFERS = 3, LARGE_COLUMNS = 4 }; /* behind the fields, what headers are made of */
enum { ALIGNED = 64 }; /* as Arrow's format recommends */

typedef struct {
  atomic_int holders;
  int64_t rows;
  char *block;
  size_t placed;
  char *large[LARGE_COLUMNS]; /* bytes of records that are not copied, NULL behind the last */
  name_column *name; /* NULL where it is not selected */
  struct ArrowArray arrays[ARRAYS]; /* the selected fields in their order; the headers' struct, keys and values */
  struct ArrowArray *fields[FIELDS], *entries[1], *pair[2];
  const void *buffers[ARRAYS + 1][BUFFERS]; /* the last ones are the struct array's own */
} owner;

static void owner_drop(owner *all) {
  if (atomic_fetch_sub(&all->holders, 1) > 1) return;
  block_free(all->block);
  for (int i = 0; i < LARGE_COLUMNS; i++) free(all->large[i]);
  name_column_drop(all->name);
  free(all);
}

static void release(struct ArrowArray *array) {
  owner *all = array->private_data;
  for (int64_t i = 0; i < array->n_children; i++) {
    struct ArrowArray *child = array->children[i];
    if (child->release) child->release(child); /* one that was moved away is released by its new holder */
  }
  array->release = NULL;
  owner_drop(all);
}

static void describe(owner *all, struct ArrowArray *array, const void **buffers, int64_t length, int64_t n_buffers) {
  *array = (struct ArrowArray){
      .length = length, .n_buffers = n_buffers, .buffers = buffers, .release = release, .private_data = all};
  atomic_fetch_add(&all->holders, 1);
}

static size_t padded(size_t size) { return (size + ALIGNED - 1) / ALIGNED * ALIGNED; }

/* Room for one more buffer; an address also where no bytes are, which Arrow wants. */
static void *place(owner *all, size_t size) {
  void *placed = all->block + all->placed;
  all->placed += padded(size);
  return placed;
}

static const void *copied(owner *all, const void *from, size_t size) {
  void *to = place(all, size);
  if (size) memcpy(to, from, size);
  return to;
}

static const void *copied_bits(owner *all, const validity *valid, int64_t rows) {
  return valid->nulls ? copied(all, valid->bits, (size_t)(rows + 7) / 8) : NULL;
}

/* A column that never had a row has no offsets, not even the first. */
static const void *copied_offsets(owner *all, const int32_t *offsets, int64_t rows) {
  static const int32_t none = 0;
  return copied(all, offsets ? offsets : &none, (size_t)(rows + 1) * sizeof *offsets);
}

static size_t size_of_bits(const validity *valid, int64_t rows) { return valid->nulls ? padded((size_t)(rows + 7) / 8) : 0; }

static size_t size_of_offsets(int64_t rows) { return padded((size_t)(rows + 1) * sizeof(int32_t)); }

static bool is_large(const bytes_column *column) { return column->room > MOST_KEPT; }

/* The bytes of a large column, which it has no more. */
static const void *handed_over(owner *all, bytes_column *column) {
  int at = 0;
  while (all->large[at]) at++;
  char *smaller = realloc(column->data, column->used ? column->used : 1);
  all->large[at] = smaller ? smaller : column->data;
  column->data = NULL;
  column->room = column->used = 0;
  return all->large[at];
}

static size_t size_of_bytes(const bytes_column *column) {
  size_t data = is_large(column) ? 0 : padded(column->used);
  return size_of_bits(&column->valid, column->rows) + size_of_offsets(column->rows) + data;
}

static size_t size_of(const columns *all) {
  size_t rows = (size_t)all->rows, found = 0;
  const bool *has = all->selected.has;
  found += ((size_t)has[FIELD_OFFSET] + has[FIELD_TIMESTAMP]) * padded(rows * sizeof(int64_t));
  found += ((size_t)has[FIELD_PARTITION] + has[FIELD_TIMESTAMP_TYPE]) * padded(rows * sizeof(int32_t));
  if (has[FIELD_KEY]) found += size_of_bytes(&all->key);
  if (has[FIELD_VALUE]) found += size_of_bytes(&all->value);
  if (!has[FIELD_HEADERS]) return found;
  found += size_of_bits(&all->headers.valid, all->rows) + size_of_offsets(all->rows);
  return found + size_of_bytes(&all->headers.keys) + size_of_bytes(&all->headers.values);
}

static void describe_numbers(owner *all, int at, const void *values) {
  all->buffers[at][1] = values;
  describe(all, &all->arrays[at], all->buffers[at], all->rows, 2);
}

static void describe_bytes(owner *all, int at, bytes_column *column) {
  const void **buffers = all->buffers[at];
  buffers[0] = copied_bits(all, &column->valid, column->rows);
  buffers[1] = copied_offsets(all, column->offsets, column->rows);
  buffers[2] = is_large(column) ? handed_over(all, column) : copied(all, column->data, column->used);
  describe(all, &all->arrays[at], buffers, column->rows, 3);
  all->arrays[at].null_count = column->valid.nulls;
}

static void describe_name(owner *all, int at) {
  all->buffers[at][1] = all->name->offsets;
  all->buffers[at][2] = all->name->names;
  describe(all, &all->arrays[at], all->buffers[at], all->rows, 3);
}

static void describe_children(struct ArrowArray *array, struct ArrowArray **children, int64_t count) {
  array->children = children;
  array->n_children = count;
}

static void describe_headers(owner *all, int at, headers_column *headers) {
  describe_bytes(all, KEYS, &headers->keys);
  describe_bytes(all, VALUES, &headers->values);
  all->pair[0] = &all->arrays[KEYS];
  all->pair[1] = &all->arrays[VALUES];
  describe(all, &all->arrays[ENTRY], all->buffers[ENTRY], headers->keys.rows, 1);
  describe_children(&all->arrays[ENTRY], all->pair, 2);
  all->entries[0] = &all->arrays[ENTRY];
  all->buffers[at][0] = copied_bits(all, &headers->valid, all->rows);
  all->buffers[at][1] = copied_offsets(all, headers->offsets, all->rows);
  describe(all, &all->arrays[at], all->buffers[at], all->rows, 2);
  all->arrays[at].null_count = headers->valid.nulls;
  describe_children(&all->arrays[at], all->entries, 1);
}

static const void *repeated(owner *all, int32_t number) {
  int32_t *to = place(all, (size_t)all->rows * sizeof *to);
  for (int64_t row = 0; row < all->rows; row++) to[row] = number;
  return to;
}

static owner *new_owner(const columns *from, name_column *name) {
  owner *made = calloc(1, sizeof *made);
  char *block = made ? block_new(size_of(from) + ALIGNED) : NULL;
  if (!block) {
    free(made);
    return NULL;
  }
  made->block = block;
  made->placed = padded((uintptr_t)block) - (uintptr_t)block;
  made->rows = from->rows;
  made->name = name;
  if (name) atomic_fetch_add(&name->holders, 1);
  atomic_init(&made->holders, 0);
  return made;
}

static void describe_field(owner *made, int at, field which, columns *from, int32_t partition) {
  size_t rows = (size_t)from->rows;
  switch (which) {
    case FIELD_KEY:
      describe_bytes(made, at, &from->key);
      return;
    case FIELD_VALUE:
      describe_bytes(made, at, &from->value);
      return;
    case FIELD_TOPIC:
      describe_name(made, at);
      return;
    case FIELD_PARTITION:
      describe_numbers(made, at, repeated(made, partition));
      return;
    case FIELD_OFFSET:
      describe_numbers(made, at, copied(made, from->offsets, rows * sizeof *from->offsets));
      return;
    case FIELD_TIMESTAMP:
      describe_numbers(made, at, copied(made, from->timestamps, rows * sizeof *from->timestamps));
      return;
    case FIELD_TIMESTAMP_TYPE:
      describe_numbers(made, at, copied(made, from->types, rows * sizeof *from->types));
      return;
    case FIELD_HEADERS:
      describe_headers(made, at, &from->headers);
      return;
    case FIELDS:
      return;
  }
}

bool columns_export(columns *all, int32_t partition, name_column *name, struct ArrowArray *array) {
  owner *made = new_owner(all, name);
  if (!made) return false;
  int count = all->selected.count;
  for (int i = 0; i < count; i++) {
    describe_field(made, i, (field)all->selected.order[i], all, partition);
    made->fields[i] = &made->arrays[i];
  }
  describe(made, array, made->buffers[ARRAYS], made->rows, 1);
  describe_children(array, made->fields, count);
  columns_clear(all);
  return true;
}
