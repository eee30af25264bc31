/* What a record is read into: the fields of every struct, and how a name is found among them. */
#include <stdlib.h>

#include "json.h"
#include "json_names.h"

enum { MOST_COLUMNS = 1 << 20 };

static const int32_t tree_kinds[J_KINDS] = {
    [J_STRUCT] = T_STRUCT, [J_LIST] = T_LIST, [J_MAP] = T_MAP, [J_BOOLEAN] = T_BOOLEAN, [J_BYTE] = T_BYTE,
    [J_SHORT] = T_SHORT, [J_INT] = T_INT, [J_LONG] = T_LONG, [J_FLOAT] = T_FLOAT, [J_DOUBLE] = T_DOUBLE,
    [J_STRING] = T_STRING, [J_BINARY] = T_BYTES, [J_DECIMAL] = T_DECIMAL, [J_DATE] = T_INT, [J_TIMESTAMP] = T_LONG,
    [J_TIMESTAMP_NTZ] = T_LONG,
};

bool json_tree_new(tree *all, const int32_t (*described)[4], int32_t count, int32_t most) {
  int32_t(*columns)[2] = calloc((size_t)count + 1, sizeof *columns);
  if (!columns) return false;
  bool known = count > 0 && count <= MOST_COLUMNS && described[0][0] == J_STRUCT;
  for (int32_t i = 0; known && i < count; i++) {
    known = described[i][0] >= 0 && described[i][0] < J_KINDS;
    if (known) memcpy(columns[i], (int32_t[]){tree_kinds[described[i][0]], described[i][1]}, sizeof *columns);
    if (known && described[i][0] == J_DECIMAL)
      known = described[i][2] > 0 && described[i][2] <= 38 && described[i][3] >= 0 && described[i][3] <= described[i][2];
  }
  bool made = known && tree_new(all, (const int32_t(*)[2])columns, count, most);
  free(columns);
  /* A map's keys are JSON's names. */
  for (int32_t i = 0; made && i < count; i++) made = described[i][0] != J_MAP || described[i + 1][0] == J_STRING;
  return made;
}

/* Where the next struct's fields stand, and its table: empty places are -1. */
static void add_struct(json_plan *plan, int32_t at, const int32_t (*described)[4], int32_t *used, int32_t *slots_used) {
  json_field *field = &plan->fields[at];
  field->first = *used;
  for (int32_t child = at + 1; child < at + 1 + described[at][1]; child += 1 + described[child][1]) {
    plan->lists[(*used)++] = child;
    field->count++;
  }
  int32_t size = 4;
  while (size < 4 * field->count) size *= 2;
  field->slots = *slots_used;
  field->mask = size - 1;
  *slots_used += size;
  for (int32_t i = 0; i < size; i++) plan->table[field->slots + i] = -1;
  for (int32_t i = field->first; i < *used; i++) {
    const json_field *named = &plan->fields[plan->lists[i]];
    field->lengths |= UINT64_C(1) << named->name_length % 64;
    uint32_t place = name_hash(named->name, named->name_length) & (uint32_t)field->mask;
    while (plan->table[field->slots + (int32_t)place] >= 0) place = (place + 1) & (uint32_t)field->mask;
    plan->table[field->slots + (int32_t)place] = i;
  }
}

static bool cut_names(json_plan *plan, int32_t count, size_t size) {
  const char *at = plan->names, *end = at + size;
  for (int32_t i = 0; i < count; i++) {
    const char *zero = memchr(at, 0, (size_t)(end - at));
    if (!zero) return false;
    plan->fields[i].name = at;
    plan->fields[i].name_length = (size_t)(zero - at);
    at = zero + 1;
  }
  return at == end;
}

bool json_plan_new(json_plan *plan, const int32_t (*described)[4], int32_t count, const char *names, size_t size) {
  size_t fields = (size_t)count;
  plan->fields = calloc(fields, sizeof *plan->fields);
  plan->lists = calloc(fields, sizeof *plan->lists);
  plan->table = calloc(12 * fields, sizeof *plan->table); /* at most eight places a field, and four a struct */
  plan->names = malloc(size + 1);
  if (!plan->fields || !plan->lists || !plan->table || !plan->names) return false;
  memcpy(plan->names, names, size);
  if (!cut_names(plan, count, size)) return false;
  int32_t used = 0, slots = 0;
  for (int32_t i = 0; i < count; i++) {
    plan->fields[i].kind = (json_kind)described[i][0];
    plan->fields[i].precision = described[i][2];
    plan->fields[i].scale = described[i][3];
    plan->has_decimals = plan->has_decimals || described[i][0] == J_DECIMAL;
  }
  for (int32_t i = 0; i < count; i++)
    if (described[i][0] == J_STRUCT) add_struct(plan, i, described, &used, &slots);
  return true;
}

void json_plan_free(json_plan *plan) {
  free(plan->fields);
  free(plan->lists);
  free(plan->table);
  free(plan->names);
  *plan = (json_plan){0};
}
