/* Whether a list of steps can be run on a tree of columns without harm: each step for itself, in one table. */
#include "protobuf.h"

enum { MOST_NUMBER = (1 << 29) - 1 };

/* Which columns an operation appends to. */
static const tree_kind column_of[PB_OPS] = {
    [PB_MESSAGE] = T_STRUCT, [PB_BOOL] = T_BOOLEAN, [PB_INT32] = T_INT, [PB_SINT32] = T_INT, [PB_FIXED32] = T_INT,
    [PB_FLOAT] = T_FLOAT, [PB_INT64] = T_LONG, [PB_SINT64] = T_LONG, [PB_FIXED64] = T_LONG, [PB_DOUBLE] = T_DOUBLE,
    [PB_ENUM] = T_STRING, [PB_BYTES] = T_BYTES, [PB_STRING] = T_STRING, [PB_SUBMESSAGE] = T_STRUCT, [PB_TIME] = T_LONG,
};

static bool within(int64_t number, int64_t count) { return number >= 0 && number < count; }

static bool valid_enum(const protobuf_list *list, const protobuf_step *step) {
  if (!within(step->a, list->table_count - 1)) return false;
  int64_t pairs = list->table[step->a], other = list->table[step->a + 1];
  if (pairs < 0 || pairs > (list->table_count - step->a - 2) / 2) return false;
  for (int64_t i = 0; i < pairs; i++)
    if (!within(list->table[step->a + 3 + 2 * i], list->constant_count)) return false;
  return other == -1 || (within(other, list->constant_count) && list->constants[other].size <= PB_MOST_PREFIX);
}

/* The MESSAGE of a field stands behind it, so no message is inside of itself. */
static bool valid_inner(const protobuf_list *list, int64_t at, int64_t column) {
  const protobuf_step *step = &list->steps[at];
  if (step->a <= at || step->a >= list->count || list->steps[step->a].op != PB_MESSAGE) return false;
  const protobuf_step *inner = &list->steps[step->a];
  if (step->op == PB_SUBMESSAGE) return inner->column == column;
  return inner->a == 2 && inner->column < 0 && inner + 2 < list->steps + list->count && inner[1].op == PB_INT64 &&
         inner[2].op == PB_INT32 && inner[1].column < 0 && inner[2].column < 0;
}

static bool valid_field(const protobuf_list *list, const tree *into, int64_t at) {
  const protobuf_step *step = &list->steps[at];
  bool texts = step->op == PB_BYTES || step->op == PB_STRING;
  if (step->op == PB_ENUM && !valid_enum(list, step)) return false;
  if (texts && step->flags & PB_DEFAULT && !within(step->b, list->constant_count)) return false;
  if (step->number < 1 || step->number > MOST_NUMBER || step->oneof < 0) return false;
  if (step->column < 0) return true;
  int64_t item = step->column;
  if (step->flags & PB_REPEATED) {
    tree_kind kind = into->columns[item].kind;
    if (kind == T_MAP) return step->op == PB_SUBMESSAGE && valid_inner(list, at, -1);
    if (kind != T_LIST) return false;
    item++;
  }
  if (into->columns[item].kind != column_of[step->op]) return false;
  return step->op < PB_SUBMESSAGE || valid_inner(list, at, item);
}

static bool valid_message(const protobuf_list *list, const tree *into, int64_t at) {
  const protobuf_step *step = &list->steps[at];
  if (step->column >= 0 && into->columns[step->column].kind != T_STRUCT) return false;
  if (step->a < 0 || step->a >= list->count - at) return false;
  for (int64_t i = 1; i <= step->a; i++)
    if (step[i].op == PB_MESSAGE || (i > 1 && step[i].number <= step[i - 1].number)) return false;
  return true;
}

/* The index that the first step names, with its length before it. */
static bool valid_index(const protobuf_list *list) {
  int64_t at = list->steps[0].b;
  return at == -1 || (within(at, list->table_count) && list->table[at] > 0 && list->table[at] < list->table_count - at);
}

bool protobuf_valid(const protobuf_list *list, const tree *into) {
  if (list->count < 1 || list->steps[0].op != PB_MESSAGE || list->steps[0].column != 0 || !valid_index(list)) return false;
  for (int64_t at = 0; at < list->count; at++) {
    const protobuf_step *step = &list->steps[at];
    if (!within(step->op, PB_OPS) || step->column < -1 || step->column >= into->count) return false;
    if (!(step->op == PB_MESSAGE ? valid_message(list, into, at) : valid_field(list, into, at))) return false;
  }
  return true;
}
