/* Reads Avro's records by a list of steps, into a tree of columns.  What a step does stands in runtime/values/avro_steps.py. */
#ifndef COHORT_AVRO_H
#define COHORT_AVRO_H

#include "constant.h"
#include "tree.h"

typedef enum {
  AVRO_END, AVRO_NULL, AVRO_STRUCT, AVRO_BOOLEAN, AVRO_INT, AVRO_LONG, AVRO_INT_AS_LONG, AVRO_INT_AS_FLOAT,
  AVRO_INT_AS_DOUBLE, AVRO_LONG_AS_FLOAT, AVRO_LONG_AS_DOUBLE, AVRO_FLOAT, AVRO_FLOAT_AS_DOUBLE, AVRO_DOUBLE, AVRO_BYTES,
  AVRO_STRING, AVRO_FIXED, AVRO_DECIMAL, AVRO_DECIMAL_FIXED, AVRO_ENUM, AVRO_LIST, AVRO_NEXT, AVRO_NULLABLE, AVRO_UNION,
  AVRO_JUMP, AVRO_FAIL, AVRO_DEFAULT, AVRO_FROM_RECORD, AVRO_SKIP_VARINTS, AVRO_SKIP_BYTES, AVRO_SKIP_FIXED,
  AVRO_SKIP_LIST, AVRO_SKIP_ITEMS, AVRO_CALL, AVRO_RETURN, AVRO_SKIP_NULLABLE, AVRO_OPS
} avro_op;

/* Why a record can't be read; the last is no fault of the record. */
typedef enum {
  AVRO_GOOD, AVRO_TRUNCATED, AVRO_TRAILING, AVRO_VARINT, AVRO_RANGE, AVRO_LENGTH, AVRO_NO_BOOLEAN, AVRO_UTF8, AVRO_BRANCH,
  AVRO_SYMBOL, AVRO_DIGITS, AVRO_ITEMS, AVRO_DEPTH, AVRO_UNRESOLVED, AVRO_FRAME, AVRO_NO_SCHEMA,
  AVRO_NO_MEMORY
} avro_reason;

typedef struct {
  int64_t op, column, a, b;
} avro_step;

typedef struct {
  int64_t id; /* of the writer's schema */
  const avro_step *steps;
  int64_t count;
  const int64_t *table;
  int64_t table_count;
  const constant *constants;
  int64_t constant_count;
} avro_list;

typedef struct {
  avro_reason reason;
  int64_t at;       /* bytes read before */
  int64_t constant; /* which one says what the schemas can't agree on, or -1 */
} avro_error;

/* Whether every step is one that can run on these columns.  That they are in an order which makes sense is up to whoever
 * made them. */
bool avro_valid(const avro_list *, const tree *);

/* Append a record, which begins at `start` of the bytes, to all columns.  When it can't be read, what it has appended is still there: tree_cut() takes it back. */
avro_error avro_read(const avro_list *, tree *, const uint8_t *bytes, size_t start, size_t size);

#endif
