/* The Avro interpreter for tests/kit/fuzz.h. */
#include "fuzz.h"

#include "values/avro.h"

typedef struct {
  int32_t (*described)[2];
  int32_t columns;
  tree into;
  avro_list list;
} plan;

static plan plans[MOST_PLANS];

static bool make(const plan *of, tree *made) {
  return tree_new(made, (const int32_t(*)[2])of->described, of->columns, INT32_MAX);
}

static void read_plan(FILE *file, size_t at) {
  plan *made = &plans[at];
  made->columns = (int32_t)number(file);
  made->described = block(file, (size_t)made->columns * sizeof *made->described);
  if (!make(made, &made->into)) abort();
  made->list.count = number(file);
  made->list.steps = block(file, (size_t)made->list.count * sizeof(avro_step));
  made->list.table_count = number(file);
  made->list.table = block(file, (size_t)made->list.table_count * sizeof(int64_t));
  made->list.constant_count = number(file);
  constant *constants = must(calloc((size_t)made->list.constant_count + 1, sizeof *constants));
  made->list.constants = constants;
  for (int64_t i = 0; i < made->list.constant_count; i++) {
    constants[i].size = (size_t)number(file);
    constants[i].data = block(file, constants[i].size);
  }
  if (!avro_valid(&made->list, &made->into)) abort();
}

/* One record as native/values/avro_decoder.c reads it: false when memory has run out. */
static bool read_row(const avro_list *list, tree *into, const uint8_t *record, size_t size) {
  int64_t row = into->columns[0].rows;
  avro_error error = avro_read(list, into, record, 0, size);
  if (error.at < 0) abort();
  if (!error.reason) return true;
  tree_cut(into, row);
  return error.reason != AVRO_NO_MEMORY && tree_null(into, 0);
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
    if (!read_row(&of->list, &of->into, record, given->size - 1)) abort();
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
    if (read_row(&of->list, &into, record, given->size - 1)) continue;
    if (!failed || tree_full(&into)) abort();
    tree_cut(&into, row);
    if (!read_row(&of->list, &into, record, given->size - 1)) abort();
  }
  if (made && tree_export(&into, &array))
    array.release(&array);
  else if (made)
    export(&into, 3);
  tree_free(&into);
  free(record);
}

static uint8_t odd_byte(void) {
  static const uint8_t odd[] = {0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0xFE, 0x40};
  return odd[chance(sizeof odd)];
}
