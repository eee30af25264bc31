/* Feeds bytes to the JSON reader, built with sanitizers and the compiler's trace of what runs.
 *
 *     json_fuzz PLANS CORPUS ROUNDS SEED
 *
 * PLANS (written by tests/kit/json_fuzz.py) has the fields and names of some types.  CORPUS has one input a line, in hex:
 * the number of a plan, then a record.  All of them are read first; then, ROUNDS times, one that is like one of them.  What
 * reaches code that none before it has reached is kept, and printed at the end, one a line. */
#include <stdio.h>
#include <stdlib.h>

#include "json/json.h"

enum { MOST_INPUT = 4096, MAP = 1 << 16, MOST_KEPT = 4096, MOST_PLANS = 64 };

typedef struct {
  uint8_t bytes[MOST_INPUT];
  size_t size;
} input;

static json_reader plans[MOST_PLANS];
static size_t plan_count;
static input kept[MOST_KEPT];
static size_t kept_count;
static uint8_t seen[MAP];
static int fresh;
static uintptr_t before;

/* The compiler calls this at every branch's target. */
__attribute__((no_sanitize("all"), no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void) {
  uintptr_t place = (uintptr_t)__builtin_return_address(0);
  uint8_t *at = &seen[(place ^ place >> 16 ^ before) % MAP]; /* the way that led there counts */
  before = place << 1;
  fresh |= !*at;
  *at = 1;
}

static void *must(void *pointer) {
  if (!pointer) abort();
  return pointer;
}

static int64_t number(FILE *file) {
  int64_t found;
  if (fread(&found, sizeof found, 1, file) != 1) abort();
  return found;
}

static void *block(FILE *file, size_t size) {
  void *made = must(malloc(size + 1));
  if (size && fread(made, size, 1, file) != 1) abort();
  return made;
}

static void read_plan(FILE *file, json_reader *made) {
  int64_t count = number(file);
  int32_t(*described)[4] = block(file, (size_t)count * sizeof *described);
  size_t size = (size_t)number(file);
  char *names = block(file, size);
  if (!json_tree_new(&made->into, (const int32_t(*)[4])described, (int32_t)count, INT32_MAX) ||
      !json_plan_new(&made->plan, (const int32_t(*)[4])described, (int32_t)count, names, size))
    abort();
  free(described);
  free(names);
}

/* The record in memory that ends where it ends, three times: what one leaves behind, the next one finds. */
static void run(const input *given) {
  if (!given->size) return;
  json_reader *of = &plans[given->bytes[0] % plan_count];
  size_t size = given->size - 1;
  char *record = must(malloc(size ? size : 1));
  memcpy(record, given->bytes + 1, size);
  of->as_text = of->plan.has_decimals;
  for (int row = 0; row < 3; row++) {
    json_error error = json_read(of, record, size);
    if (error.reason == JSON_NO_MEMORY || error.at < 0 || of->into.columns[0].rows != row + 1) abort();
    if (error.reason > JSON_NOT_OBJECT && error.at >= of->into.count) abort();
  }
  struct ArrowArray array;
  if (!tree_export(&of->into, &array) || array.length != 3) abort();
  array.release(&array);
  free(record);
}

static void attempt(const input *given) {
  fresh = 0;
  before = 0;
  run(given);
  if (fresh && kept_count < MOST_KEPT) kept[kept_count++] = *given;
}

static uint64_t state;

static uint32_t chance(uint32_t most) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (uint32_t)(state >> 32) % most;
}

static void change(input *given) {
  static const uint8_t odd[] = "\"\\{}[]:,-+.eE0129TZ= u/tfn\x80\xFF\xED";
  size_t at = given->size ? chance((uint32_t)given->size) : 0;
  uint8_t byte = chance(4) ? odd[chance(sizeof odd)] : (uint8_t)chance(256);
  switch (chance(5)) {
    case 0: if (given->size) given->bytes[at] = byte; break;
    case 1: if (given->size) given->bytes[at] ^= (uint8_t)(1u << chance(8)); break;
    case 2: {
      size_t gone = 1 + chance(4);
      if (at + gone > given->size) break;
      memmove(given->bytes + at, given->bytes + at + gone, given->size - at - gone);
      given->size -= gone;
      break;
    }
    case 3:
      if (given->size == MOST_INPUT) break;
      memmove(given->bytes + at + 1, given->bytes + at, given->size++ - at);
      given->bytes[at] = byte;
      break;
    default: {
      const input *other = &kept[chance((uint32_t)kept_count)];
      size_t from = other->size ? chance((uint32_t)other->size) : 0, size = other->size - from;
      if (size > MOST_INPUT - at) size = MOST_INPUT - at;
      memcpy(given->bytes + at, other->bytes + from, size);
      given->size = at + size;
    }
  }
}

static void read_corpus(const char *path) {
  static char line[2 * MOST_INPUT + 2];
  FILE *file = must(fopen(path, "r"));
  while (fgets(line, sizeof line, file)) {
    input given = {.size = 0};
    unsigned byte;
    for (const char *at = line; sscanf(at, "%2x", &byte) == 1; at += 2) given.bytes[given.size++] = (uint8_t)byte;
    attempt(&given);
  }
  fclose(file);
}

int main(int count, char **arguments) {
  if (count != 5) return 2;
  FILE *file = must(fopen(arguments[1], "rb"));
  for (int64_t left = plan_count = (size_t)number(file); left > 0; left--) read_plan(file, &plans[plan_count - (size_t)left]);
  fclose(file);
  read_corpus(arguments[2]);
  if (!kept_count) return 3;
  state = strtoull(arguments[4], NULL, 10) * 2654435769u + 1;
  for (long left = atol(arguments[3]); left > 0; left--) {
    input given = kept[chance((uint32_t)kept_count)];
    for (uint32_t times = 1 + chance(6); times; times--) change(&given);
    attempt(&given);
  }
  for (size_t i = 0; i < kept_count; i++) {
    for (size_t at = 0; at < kept[i].size; at++) printf("%02x", kept[i].bytes[at]);
    printf("\n");
  }
  for (size_t i = 0; i < plan_count; i++) json_reader_free(&plans[i]);
  return 0;
}
