/* Reads JSON objects, one a record, into a tree of columns, as Spark's from_json does.  yyjson parses; what is made of the
 * values stands here.  A plan has a field for every column, parents first, so a field's number is its column's. */
#ifndef COHORT_JSON_H
#define COHORT_JSON_H

#include "json_text.h"
#include "tree.h"
#include "yyjson.h"

/* Spark's types; the numbers are those of runtime/values/json_plan.py. */
typedef enum {
  J_STRUCT, J_LIST, J_MAP, J_BOOLEAN, J_BYTE, J_SHORT, J_INT, J_LONG, J_FLOAT, J_DOUBLE, J_STRING, J_BINARY, J_DECIMAL,
  J_DATE, J_TIMESTAMP, J_TIMESTAMP_NTZ, J_KINDS
} json_kind;

/* What is wrong with a record.  Up to JSON_NOT_OBJECT nothing of it is kept; else a field is null and the others stay. */
typedef enum {
  JSON_GOOD, JSON_SYNTAX, JSON_UTF8, JSON_NOT_OBJECT, JSON_WRONG_TYPE, JSON_OUT_OF_RANGE, JSON_BAD_TEXT, JSON_NO_MEMORY
} json_reason;

typedef struct {
  json_kind kind;
  int32_t precision, scale; /* of a decimal */
  const char *name;         /* in its struct; not ended by a zero */
  size_t name_length;
  int32_t first, count;     /* of a struct: where its fields stand in the plan's list */
  int32_t slots, mask;      /* of a struct: where its table of names starts, and its size less one */
  uint64_t lengths;         /* of a struct: a bit for the length of each name, modulo 64 */
} json_field;

typedef struct {
  json_field *fields; /* as many as columns */
  int32_t *lists;     /* the fields' columns of all structs, one struct after the other */
  int32_t *table;     /* places in `lists` by hash of a name, -1 where there is none */
  char *names;
  bool has_decimals;
} json_plan;

/* `described`: kind, number of fields inside, precision, scale; `names` end in a zero each. */
bool json_plan_new(json_plan *, const int32_t (*described)[4], int32_t count, const char *names, size_t size);
void json_plan_free(json_plan *);

/* The columns of a plan, as tree_new() wants them. */
bool json_tree_new(tree *, const int32_t (*described)[4], int32_t count, int32_t most);

typedef struct {
  json_reason reason;
  int64_t at; /* the byte, or the column of the field that is null */
} json_error;

typedef struct {
  json_plan plan;
  tree into;
  char *pool; /* yyjson's memory */
  size_t pool_size;
  time_zone zone; /* of texts that name none; its offsets are the reader's own */
  bool as_text; /* numbers stay text until a column says what they are */
  json_error error;
} json_reader;

/* Append a record.  When memory has run out, or a column is full (tree_full), it is as if it had not been read.  Nothing is left of one that is bad as a whole: its row is null. */
json_error json_read(json_reader *, const char *record, size_t size);

void json_reader_free(json_reader *);

#endif
