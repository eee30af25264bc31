/* The JSON reader for tests/kit/fuzz.h. */
#include "fuzz.h"

#include "json/json.h"

typedef struct {
  int32_t (*described)[4];
  int32_t count;
  char *names;
  size_t size;
  json_reader reader;
} plan;

static plan plans[MOST_PLANS];

static bool make(const plan *of, json_reader *made) {
  const int32_t(*described)[4] = (const int32_t(*)[4])of->described;
  bool whole = json_tree_new(&made->into, described, of->count, INT32_MAX) &&
               json_plan_new(&made->plan, described, of->count, of->names, of->size);
  made->as_text = made->plan.has_decimals;
  return whole;
}

static void read_plan(FILE *file, size_t at) {
  plan *made = &plans[at];
  made->count = (int32_t)number(file);
  made->described = block(file, (size_t)made->count * sizeof *made->described);
  made->size = (size_t)number(file);
  made->names = block(file, made->size);
  if (!make(made, &made->reader)) abort();
}

static void export(json_reader *of, int64_t rows) {
  struct ArrowArray array;
  if (!tree_export(&of->into, &array) || array.length != rows) abort();
  array.release(&array);
}

/* Three times: what one leaves behind, the next one finds. */
static void run(const input *given) {
  json_reader *of = &plans[given->bytes[0] % plan_count].reader;
  uint8_t *record = record_of(given);
  of->as_text = of->plan.has_decimals;
  for (int row = 0; row < 3; row++) {
    json_error error = json_read(of, (const char *)record, given->size - 1);
    if (error.reason == JSON_NO_MEMORY || error.at < 0 || of->into.columns[0].rows != row + 1) abort();
    if (error.reason > JSON_NOT_OBJECT && error.at >= of->into.count) abort();
  }
  export(of, 3);
  free(record);
}

/* What fails leaves no row, and the next attempt finds all as it was. */
static void run_short(const input *given) {
  json_reader of = {0};
  struct ArrowArray array;
  long left = shortage(-1);
  uint8_t *record = record_of(given);
  shortage(left);
  bool made = make(&plans[given->bytes[0] % plan_count], &of);
  if (!made && !failed) abort();
  for (int row = 0; made && row < 3; row++) {
    json_error error = json_read(&of, (const char *)record, given->size - 1);
    if (error.reason != JSON_NO_MEMORY) continue;
    if (!failed || of.into.columns[0].rows != row || tree_full(&of.into)) abort();
    error = json_read(&of, (const char *)record, given->size - 1);
    if (error.reason == JSON_NO_MEMORY || of.into.columns[0].rows != row + 1) abort();
  }
  if (made && tree_export(&of.into, &array))
    array.release(&array);
  else if (made)
    export(&of, 3);
  json_reader_free(&of);
  free(record);
}

static uint8_t odd_byte(void) {
  static const uint8_t odd[] = "\"\\{}[]:,-+.eE0129TZ= u/tfn\x80\xFF\xED";
  return odd[chance(sizeof odd)];
}

static void mend(input *given) { (void)given; }
