/* The Avro interpreter for tests/kit/fuzz.h. */
#include "fuzz.h"

#include "values/avro.h"

typedef struct {
  int32_t (*described)[2];
  int32_t columns;
  tree into;
  avro_list list;
} plan;

#include "steps_fuzz.h"

static void read_plan(FILE *file, size_t at) {
  plan *made = &plans[at];
  made->columns = (int32_t)number(file);
  made->described = block(file, (size_t)made->columns * sizeof *made->described);
  if (!make(made, &made->into)) abort();
  made->list.count = number(file);
  made->list.steps = block(file, (size_t)made->list.count * sizeof(avro_step));
  made->list.table_count = number(file);
  made->list.table = block(file, (size_t)made->list.table_count * sizeof(int64_t));
  made->list.constants = constants_of(file, &made->list.constant_count);
  if (!avro_valid(&made->list, &made->into)) abort();
}

/* One record as native/values/avro_decoder.c reads it: false when memory has run out. */
static bool read_row(const plan *of, tree *into, const uint8_t *record, size_t size) {
  int64_t row = into->columns[0].rows;
  avro_error error = avro_read(&of->list, into, record, 0, size);
  if (error.at < 0) abort();
  if (!error.reason) return true;
  tree_cut(into, row);
  return error.reason != AVRO_NO_MEMORY && tree_null(into, 0);
}

static uint8_t odd_byte(void) {
  static const uint8_t odd[] = {0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0xFE, 0x40};
  return odd[chance(sizeof odd)];
}
