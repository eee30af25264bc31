/* Columns on their way into Arrow's C data interface.
 *
 * All buffers of a batch have one owner, which counts the arrays that show them: the struct array, its fields and
 * their children.  An importer may keep any of them, in any thread, longer than the others. */
#include <stdlib.h>

#include "columns.h"

enum { FIELDS = 7, WITH_HEADERS = 8, INNER = 3, ARRAYS = WITH_HEADERS + INNER, BUFFERS = 3 };

typedef struct {
  atomic_int holders;
  columns kept;
  name_column *name;
  struct ArrowArray arrays[ARRAYS]; /* the fields, then the headers' struct, keys and values */
  struct ArrowArray *fields[WITH_HEADERS], *entries[1], *pair[2];
  const void *buffers[ARRAYS + 1][BUFFERS]; /* the last ones are the struct array's own */
} owner;

static void owner_drop(owner *all) {
  if (atomic_fetch_sub(&all->holders, 1) > 1) return;
  columns_free(&all->kept);
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

static void describe_numbers(owner *all, int at, const void *values) {
  all->buffers[at][1] = values;
  describe(all, &all->arrays[at], all->buffers[at], all->kept.rows, 2);
}

static void describe_bytes(owner *all, int at, const bytes_column *column) {
  const void **buffers = all->buffers[at];
  buffers[0] = column->valid.nulls ? column->valid.bits : NULL;
  buffers[1] = column->offsets;
  buffers[2] = column->data;
  describe(all, &all->arrays[at], buffers, column->rows, 3);
  all->arrays[at].null_count = column->valid.nulls;
}

static void describe_name(owner *all, int at) {
  all->buffers[at][1] = all->name->offsets;
  all->buffers[at][2] = all->name->names;
  describe(all, &all->arrays[at], all->buffers[at], all->kept.rows, 3);
}

static void describe_children(struct ArrowArray *array, struct ArrowArray **children, int64_t count) {
  array->children = children;
  array->n_children = count;
}

static void describe_headers(owner *all) {
  headers_column *headers = &all->kept.headers;
  enum { LIST = FIELDS, ENTRY, KEYS, VALUES };
  describe_bytes(all, KEYS, &headers->keys);
  describe_bytes(all, VALUES, &headers->values);
  all->pair[0] = &all->arrays[KEYS];
  all->pair[1] = &all->arrays[VALUES];
  describe(all, &all->arrays[ENTRY], all->buffers[ENTRY], headers->keys.rows, 1);
  describe_children(&all->arrays[ENTRY], all->pair, 2);
  all->entries[0] = &all->arrays[ENTRY];
  all->buffers[LIST][0] = headers->valid.nulls ? headers->valid.bits : NULL;
  all->buffers[LIST][1] = headers->offsets;
  describe(all, &all->arrays[LIST], all->buffers[LIST], all->kept.rows, 2);
  all->arrays[LIST].null_count = headers->valid.nulls;
  describe_children(&all->arrays[LIST], all->entries, 1);
}

/* Give back what doubling has taken too much; a block that can't be made smaller stays as it is. */
static void shrink(void **block, size_t size) {
  void *smaller = *block ? realloc(*block, size ? size : 1) : NULL;
  if (smaller) *block = smaller;
}

static bool bytes_fit(bytes_column *column) {
  if (!column->offsets && !(column->offsets = calloc(1, sizeof *column->offsets))) return false;
  if (!column->data && !(column->data = malloc(1))) return false; /* Arrow wants an address where no bytes are, too */
  shrink((void **)&column->offsets, (size_t)(column->rows + 1) * sizeof *column->offsets);
  shrink((void **)&column->data, column->used);
  shrink((void **)&column->valid.bits, (size_t)(column->rows + 7) / 8);
  return true;
}

static bool columns_fit(columns *all, int32_t partition) {
  size_t rows = (size_t)all->rows;
  if (!bytes_fit(&all->key) || !bytes_fit(&all->value)) return false;
  if (all->with_headers && !(bytes_fit(&all->headers.keys) && bytes_fit(&all->headers.values))) return false;
  shrink((void **)&all->offsets, rows * sizeof *all->offsets);
  shrink((void **)&all->timestamps, rows * sizeof *all->timestamps);
  shrink((void **)&all->types, rows * sizeof *all->types);
  shrink((void **)&all->headers.offsets, (rows + 1) * sizeof *all->headers.offsets);
  shrink((void **)&all->headers.valid.bits, (rows + 7) / 8);
  all->partitions = malloc(rows * sizeof *all->partitions + 1);
  if (!all->partitions) return false;
  for (size_t row = 0; row < rows; row++) all->partitions[row] = partition;
  return true;
}

bool columns_export(columns *all, int32_t partition, name_column *name, struct ArrowArray *array) {
  owner *kept = calloc(1, sizeof *kept);
  if (!kept || !columns_fit(all, partition)) {
    free(kept);
    return false;
  }
  kept->kept = *all;
  *all = columns_next(all);
  kept->name = name;
  atomic_fetch_add(&name->holders, 1);
  atomic_init(&kept->holders, 0);
  describe_bytes(kept, 0, &kept->kept.key);
  describe_bytes(kept, 1, &kept->kept.value);
  describe_name(kept, 2);
  describe_numbers(kept, 3, kept->kept.partitions);
  describe_numbers(kept, 4, kept->kept.offsets);
  describe_numbers(kept, 5, kept->kept.timestamps);
  describe_numbers(kept, 6, kept->kept.types);
  if (kept->kept.with_headers) describe_headers(kept);
  int fields = kept->kept.with_headers ? WITH_HEADERS : FIELDS;
  for (int i = 0; i < fields; i++) kept->fields[i] = &kept->arrays[i];
  describe(kept, array, kept->buffers[ARRAYS], kept->kept.rows, 1);
  describe_children(array, kept->fields, fields);
  return true;
}
