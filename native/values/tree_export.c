/* A tree of columns on its way into Arrow's C data interface: what its rows take, and no more, in one block.
 *
 * The block has one owner, which counts the arrays that show it; an importer may keep any of them, in any thread, longer
 * than the others.  A map has an array more than it has columns: that of its entries. */
#include <stdatomic.h>
#include <stdlib.h>

#include "arrow/blocks.h"
#include "tree.h"

enum { ALIGNED = 64, BUFFERS = 3, MOST_KEPT = 4 << 20 };

typedef struct {
  atomic_int holders;
  uint8_t *block;
  size_t placed;
  size_t arrays_used, children_used;
  struct ArrowArray *arrays;
  struct ArrowArray **children;
  const void *(*buffers)[BUFFERS];
} owner;

static void owner_free(owner *all) {
  block_free(all->block);
  free(all->arrays);
  free(all->children);
  free(all->buffers);
  free(all);
}

static void release(struct ArrowArray *array) {
  owner *all = array->private_data;
  for (int64_t i = 0; i < array->n_children; i++) {
    struct ArrowArray *child = array->children[i];
    if (child->release) child->release(child); /* one that was moved away is released by its new holder */
  }
  array->release = NULL;
  if (atomic_fetch_sub(&all->holders, 1) == 1) owner_free(all);
}

static size_t padded(size_t size) { return (size + ALIGNED - 1) / ALIGNED * ALIGNED; }

static size_t bits_size(int64_t rows) { return (size_t)(rows + 7) / 8; }

static size_t values_size(const tree_column *column) {
  return column->kind == T_BOOLEAN ? bits_size(column->rows) : (size_t)column->rows * column->width;
}

static bool has_offsets(const tree_column *column) {
  return column->kind == T_BYTES || column->kind == T_STRING || column->kind == T_LIST || column->kind == T_MAP;
}

static size_t size_of(const tree *all) {
  size_t size = ALIGNED;
  for (int32_t i = 0; i < all->count; i++) {
    const tree_column *column = &all->columns[i];
    if (column->nulls) size += padded(bits_size(column->rows));
    if (has_offsets(column)) size += padded((size_t)(column->rows + 1) * sizeof(int32_t));
    size += padded(values_size(column)) + padded(column->used);
  }
  return size;
}

/* --- do the columns fit each other? ----------------------------------------------------------- */

static bool fits(const tree *all, int32_t at, int64_t rows) {
  const tree_column *column = &all->columns[at];
  if (column->rows != rows) return false;
  int64_t items = column->kind == T_STRUCT ? rows : column->offsets ? column->offsets[rows] : 0;
  for (int32_t child = at + 1; child < column->behind; child = all->columns[child].behind)
    if (!fits(all, child, items)) return false;
  return true;
}

/* --- copied ----------------------------------------------------------------------------------- */

/* An address also where no bytes are, which Arrow wants. */
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

static const void *copied_offsets(owner *all, const tree_column *column) {
  static const int32_t none = 0;
  return copied(all, column->offsets ? column->offsets : &none, (size_t)(column->rows + 1) * sizeof(int32_t));
}

static const void *copied_booleans(owner *all, const tree_column *column) {
  uint8_t *to = place(all, bits_size(column->rows));
  if (column->rows) memset(to, 0, bits_size(column->rows));
  for (int64_t row = 0; row < column->rows; row++) to[row / 8] |= (uint8_t)(column->values[row] << (row % 8));
  return to;
}

static struct ArrowArray *describe(owner *all, int64_t length, int64_t nulls, int64_t n_buffers) {
  size_t at = all->arrays_used++;
  all->arrays[at] = (struct ArrowArray){.length = length, .null_count = nulls, .n_buffers = n_buffers,
                                        .buffers = all->buffers[at], .release = release, .private_data = all};
  atomic_fetch_add(&all->holders, 1);
  return &all->arrays[at];
}

static struct ArrowArray *copied_column(owner *all, const tree *from, int32_t at);

static void copy_children(owner *all, const tree *from, int32_t at, struct ArrowArray *array) {
  array->children = all->children + all->children_used;
  for (int32_t child = at + 1; child < from->columns[at].behind; child = from->columns[child].behind) array->n_children++;
  all->children_used += (size_t)array->n_children;
  int64_t number = 0;
  for (int32_t child = at + 1; child < from->columns[at].behind; child = from->columns[child].behind)
    array->children[number++] = copied_column(all, from, child);
}

static struct ArrowArray *copied_column(owner *all, const tree *from, int32_t at) {
  const tree_column *column = &from->columns[at];
  bool nested = column->kind == T_STRUCT;
  struct ArrowArray *array = describe(all, column->rows, column->nulls, nested ? 1 : 2);
  array->buffers[0] = column->nulls ? copied(all, column->bits, bits_size(column->rows)) : NULL;
  if (has_offsets(column)) array->buffers[1] = copied_offsets(all, column);
  if (column->kind == T_BOOLEAN)
    array->buffers[1] = copied_booleans(all, column);
  else if (column->width)
    array->buffers[1] = copied(all, column->values, values_size(column));
  if (column->kind == T_BYTES || column->kind == T_STRING) {
    array->n_buffers = 3;
    array->buffers[2] = copied(all, column->data, column->used);
  } else if (column->kind == T_MAP) {
    struct ArrowArray *entries = describe(all, (column + 1)->rows, 0, 1);
    array->children = all->children + all->children_used++;
    array->n_children = 1;
    array->children[0] = entries;
    copy_children(all, from, at, entries);
  } else
    copy_children(all, from, at, array);
  return array;
}

void tree_clear(tree *all) {
  for (int32_t i = 0; i < all->count; i++) {
    tree_column *column = &all->columns[i];
    free(column->bits);
    column->bits = NULL;
    if (column->room > MOST_KEPT) {
      free(column->data);
      column->data = NULL;
      column->room = 0;
    }
    if ((size_t)column->capacity > MOST_KEPT / 8) {
      free(column->values);
      free(column->offsets);
      column->values = NULL;
      column->offsets = NULL;
      column->capacity = 0;
    }
    column->used = 0;
    column->rows = column->nulls = 0;
    column->full = false;
  }
}

static owner *new_owner(const tree *from) {
  size_t most = 2 * (size_t)from->count + 1;
  owner *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  atomic_init(&made->holders, 0);
  made->arrays = calloc(most, sizeof *made->arrays);
  made->children = calloc(most, sizeof(struct ArrowArray *));
  made->buffers = calloc(most, sizeof *made->buffers);
  made->block = block_new(size_of(from));
  if (made->arrays && made->children && made->buffers && made->block) {
    made->placed = padded((uintptr_t)made->block) - (uintptr_t)made->block;
    return made;
  }
  owner_free(made);
  return NULL;
}

bool tree_export(tree *all, struct ArrowArray *array) {
  owner *made = fits(all, 0, all->columns[0].rows) ? new_owner(all) : NULL;
  if (!made) return false;
  struct ArrowArray *root = copied_column(made, all, 0);
  *array = *root; /* moved: the caller's is the one that counts */
  root->release = NULL;
  tree_clear(all);
  return true;
}
