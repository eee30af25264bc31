/* Whether a list of steps can be run on a tree of columns without harm: each step for itself, in one table. */
#include "avro.h"

enum { MOST_DIGITS = 38 };

static const int64_t MOST_BYTES = INT32_MAX; /* of a record; a step may ask for as many, which are not there then */

#define KIND(kind) (1u << (kind))

/* Which columns an operation may append to; 0: none. */
static const unsigned columns_of[AVRO_OPS] = {
    [AVRO_NULL] = ~0u, [AVRO_NULLABLE] = ~0u,
    [AVRO_STRUCT] = KIND(T_STRUCT), [AVRO_BOOLEAN] = KIND(T_BOOLEAN), [AVRO_INT] = KIND(T_INT),
    [AVRO_LONG] = KIND(T_LONG), [AVRO_INT_AS_LONG] = KIND(T_LONG),
    [AVRO_INT_AS_FLOAT] = KIND(T_FLOAT), [AVRO_LONG_AS_FLOAT] = KIND(T_FLOAT), [AVRO_FLOAT] = KIND(T_FLOAT),
    [AVRO_INT_AS_DOUBLE] = KIND(T_DOUBLE), [AVRO_LONG_AS_DOUBLE] = KIND(T_DOUBLE),
    [AVRO_FLOAT_AS_DOUBLE] = KIND(T_DOUBLE), [AVRO_DOUBLE] = KIND(T_DOUBLE),
    [AVRO_BYTES] = KIND(T_BYTES), [AVRO_FIXED] = KIND(T_BYTES), [AVRO_STRING] = KIND(T_STRING), [AVRO_ENUM] = KIND(T_STRING),
    [AVRO_DECIMAL] = KIND(T_DECIMAL), [AVRO_DECIMAL_FIXED] = KIND(T_DECIMAL), [AVRO_LIST] = KIND(T_LIST) | KIND(T_MAP),
};

static bool within(int64_t number, int64_t count) { return number >= 0 && number < count; }

static bool valid_table(const avro_list *list, const avro_step *step, int64_t least, int64_t most) {
  if (step->a < 0 || step->b < 0 || step->a > list->table_count || step->b > list->table_count - step->a) return false;
  for (int64_t i = 0; i < step->b; i++)
    if (list->table[step->a + i] < least || list->table[step->a + i] >= most) return false;
  return true;
}

/* Jumps go forward, so that every way has an end; the way back, to the next item or from a routine, takes a frame. */
static bool valid_numbers(const avro_list *list, int64_t at) {
  const avro_step *step = &list->steps[at];
  switch ((avro_op)step->op) {
    case AVRO_FIXED:
    case AVRO_SKIP_FIXED:
    case AVRO_SKIP_VARINTS: return within(step->a, MOST_BYTES + 1);
    case AVRO_SKIP_ITEMS: return step->a > 0 && step->a <= MOST_BYTES;
    case AVRO_DECIMAL: return within(step->a, MOST_DIGITS + 1);
    case AVRO_DECIMAL_FIXED: return within(step->a, MOST_DIGITS + 1) && within(step->b, MOST_BYTES + 1);
    case AVRO_ENUM: return valid_table(list, step, -1, list->constant_count);
    case AVRO_UNION: return valid_table(list, step, at + 1, list->count);
    case AVRO_LIST:
    case AVRO_SKIP_LIST: return step->a > at && step->a < list->count && step->b >= 0;
    case AVRO_SKIP_NULLABLE:
    case AVRO_NULLABLE: return step->b > at && step->b < list->count;
    case AVRO_JUMP: return step->a > at && step->a < list->count;
    case AVRO_CALL: return within(step->a, list->count);
    case AVRO_FAIL:
    case AVRO_DEFAULT: return within(step->a, list->constant_count);
    default: return true;
  }
}

/* The last step ends the record, a routine, or the record by failing: none runs over the list's end. */
static bool valid_end(const avro_list *list) {
  int64_t op = list->count > 0 ? list->steps[list->count - 1].op : AVRO_NULL;
  return op == AVRO_END || op == AVRO_RETURN || op == AVRO_FAIL;
}

bool avro_valid(const avro_list *list, const tree *into) {
  for (int64_t at = 0; at < list->count; at++) {
    const avro_step *step = &list->steps[at];
    if (!within(step->op, AVRO_OPS) || !valid_numbers(list, at)) return false;
    unsigned kinds = columns_of[step->op];
    if (!within(step->column, into->count)) return false;
    if (kinds && !(kinds & KIND(into->columns[step->column].kind))) return false;
  }
  return valid_end(list);
}
