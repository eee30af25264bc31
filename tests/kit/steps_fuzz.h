/* What fuzzing is alike for all decoders that run a list of steps: the file that includes this has `plan`, whose `described`
 * and `columns` are a tree and `into` is one, and read_row(). */
#include "values/constant.h"
#include "values/tree.h"

static plan plans[MOST_PLANS];

static bool read_row(const plan *, tree *, const uint8_t *record, size_t size);

static bool make(const plan *of, tree *made) {
  return tree_new(made, (const int32_t(*)[2])of->described, of->columns, INT32_MAX);
}

static constant *constants_of(FILE *file, int64_t *count) {
  *count = number(file);
  constant *constants = must(calloc((size_t)*count + 1, sizeof *constants));
  for (int64_t i = 0; i < *count; i++) {
    constants[i].size = (size_t)number(file);
    constants[i].data = block(file, constants[i].size);
  }
  return constants;
}

static void export(tree *of, int64_t rows) {
  struct ArrowArray array;
  if (!tree_export(of, &array) || array.length != rows) abort();
  array.release(&array);
}

/* Three times: what one leaves behind, the next one finds. */
static void run(const input *given) {
  plan *of = &plans[given->bytes[0] % plan_count];
  uint8_t *record = record_of(given);
  for (int row = 0; row < 3; row++)
    if (!read_row(of, &of->into, record, given->size - 1)) abort();
  export(&of->into, 3);
  free(record);
}

/* What fails leaves no row that counts, and the next attempt finds all as it was. */
static void run_short(const input *given) {
  const plan *of = &plans[given->bytes[0] % plan_count];
  tree into = {0};
  struct ArrowArray array;
  long left = shortage(-1);
  uint8_t *record = record_of(given);
  shortage(left);
  bool made = make(of, &into);
  if (!made && !failed) abort();
  for (int row = 0; made && row < 3; row++) {
    if (read_row(of, &into, record, given->size - 1)) continue;
    if (!failed || tree_full(&into)) abort();
    tree_cut(&into, row);
    if (!read_row(of, &into, record, given->size - 1)) abort();
  }
  if (made && tree_export(&into, &array))
    array.release(&array);
  else if (made)
    export(&into, 3);
  tree_free(&into);
  free(record);
}

static void mend(input *given) { (void)given; }
