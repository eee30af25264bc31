/* The Protobuf interpreter for tests/kit/fuzz.h. */
#include "fuzz.h"

#include "values/protobuf.h"

typedef struct {
  int32_t (*described)[2];
  int32_t columns;
  int64_t framed;
  tree into;
  protobuf_list list;
} plan;

static plan plans[MOST_PLANS];

static bool make(const plan *of, tree *made) {
  return tree_new(made, (const int32_t(*)[2])of->described, of->columns, INT32_MAX);
}

static void read_plan(FILE *file, size_t at) {
  plan *made = &plans[at];
  made->framed = number(file);
  made->columns = (int32_t)number(file);
  made->described = block(file, (size_t)made->columns * sizeof *made->described);
  if (!make(made, &made->into)) abort();
  made->list.count = number(file);
  made->list.steps = block(file, (size_t)made->list.count * sizeof(protobuf_step));
  made->list.slots = must(calloc((size_t)made->list.count + 1, sizeof(protobuf_slot)));
  made->list.table_count = number(file);
  made->list.table = block(file, (size_t)made->list.table_count * sizeof(int64_t));
  made->list.constant_count = number(file);
  constant *constants = must(calloc((size_t)made->list.constant_count + 1, sizeof *constants));
  made->list.constants = constants;
  for (int64_t i = 0; i < made->list.constant_count; i++) {
    constants[i].size = (size_t)number(file);
    constants[i].data = block(file, constants[i].size);
  }
  if (!protobuf_valid(&made->list, &made->into)) abort();
}

/* One record as native/values/protobuf_decoder.c reads it: false when memory has run out. */
static bool read_row(const plan *of, tree *into, const uint8_t *record, size_t size) {
  int64_t row = into->columns[0].rows;
  protobuf_error error = protobuf_read(&of->list, into, record, size, of->framed);
  if (error.at < 0 || error.at > (int64_t)size || error.step < -1 || error.step >= of->list.count) abort();
  if (!error.reason) return true;
  tree_cut(into, row);
  return error.reason != PB_NO_MEMORY && tree_null(into, 0);
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

static uint8_t odd_byte(void) {
  static const uint8_t odd[] = {0, 1, 2, 3, 4, 5, 0x08, 0x0A, 0x0B, 0x0C, 0x12, 0x7F, 0x80, 0xFF, 0xFE};
  return odd[chance(sizeof odd)];
}
