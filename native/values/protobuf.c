/* The interpreter of steps.  A message is read twice: first what it has of each field, then each field is appended.  Bytes
 * are never read behind their end; what a list of steps may do to the memory was checked by protobuf_valid(). */
#include "protobuf.h"

#include <stdio.h>
#include <stdlib.h>

#include "arrow/utf8.h"
#include "protobuf_wire.h"

enum { FRAME = 5, NANOS_IN_MICRO = 1000, MICROS = 1000000 };

typedef struct merged {
  struct merged *next;
  uint8_t bytes[];
} merged;

typedef struct {
  const protobuf_list *list;
  tree *into;
  const uint8_t *record;
  int64_t place, step; /* of what is read now: see protobuf_error */
  merged *parts;       /* messages that came in several parts, until the record ends */
} reader;

/* The values of one field in a message; `inside`: of those that come many at once. */
typedef struct {
  const uint8_t *at, *end, *inside, *inside_end;
} occurrences;

/* --- what is written -------------------------------------------------------------------------- */

/* Behind Confluent's frame: the message's index in its schema, from the outermost message inwards, with its length before it.
 * No numbers stand for the first message, [0].  Any index will do where the first step names none. */
static protobuf_reason pass_frame(const protobuf_list *list, const uint8_t **at, const uint8_t *end) {
  const int64_t *index = list->steps[0].b < 0 ? NULL : &list->table[list->steps[0].b];
  uint64_t number;
  if (end - *at <= FRAME || **at) return PB_FRAME;
  *at += FRAME;
  if (read_varint(at, end, &number) || unzigzag(number) < 0) return PB_FRAME;
  int64_t length = unzigzag(number);
  bool same = !index || (length ? index[0] == length : index[0] == 1 && !index[1]);
  for (int64_t i = 1; i <= length; i++) {
    if (read_varint(at, end, &number) || unzigzag(number) < 0) return PB_FRAME;
    same = same && (!index || index[i] == unzigzag(number));
  }
  return same ? PB_GOOD : PB_OTHER_MESSAGE;
}

static inline bool accepts(const protobuf_step *step, uint32_t wire_type) {
  if (wire_type == protobuf_wire_type(step)) return true;
  return wire_type == WIRE_LEN && step->flags & PB_REPEATED && step->op < PB_BYTES;
}

/* A number by the bits that its type has. */
static uint64_t as_number(int64_t op, uint64_t number) {
  switch (op) {
    case PB_BOOL: return number != 0;
    case PB_SINT32: return (uint32_t)unzigzag((uint32_t)number);
    case PB_SINT64: return (uint64_t)unzigzag(number);
    case PB_INT32:
    case PB_FIXED32:
    case PB_FLOAT:
    case PB_ENUM: return (uint32_t)number;
    default: return number;
  }
}

/* --- first: what is there --------------------------------------------------------------------- */

/* An enum's name, or NULL. */
static const constant *find_name(const protobuf_list *list, const protobuf_step *step, int32_t number) {
  const int64_t *pairs = &list->table[step->a + 2];
  int64_t low = 0, high = list->table[step->a];
  if (number >= 0 && number < high && pairs[2 * number] == number) return &list->constants[pairs[2 * number + 1]];
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (pairs[2 * middle] == number) return &list->constants[pairs[2 * middle + 1]];
    if (pairs[2 * middle] < number)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

/* Whether an enum's number is a value: the others of a closed one are none, and fail a record's own fields. */
static protobuf_reason check_enum(const reader *from, const protobuf_step *step, uint64_t number, int depth, bool *counts) {
  *counts = from->list->table[step->a + 1] >= 0 || find_name(from->list, step, (int32_t)number);
  return *counts || depth ? PB_GOOD : PB_NO_ENUM;
}

/* Whether a value is one of this field.  Spark fails a record whose own fields are others, not those inside. */
static inline protobuf_reason check(const reader *from, const protobuf_step *step, uint32_t wire_type, const value *found,
                                    int depth, bool *counts) {
  *counts = accepts(step, wire_type);
  if (!*counts) return depth ? PB_GOOD : PB_OTHER_TYPE;
  if (step->flags & PB_REPEATED) return PB_GOOD;
  if (step->op == PB_STRING && !is_utf8(found->at, found->number)) return PB_UTF8;
  return step->op == PB_ENUM ? check_enum(from, step, found->number, depth, counts) : PB_GOOD;
}

/* The place of a field, or -1: mostly it is the one behind the last, or between these two, and nobody asked for it. */
static inline int64_t find_field(const protobuf_step *fields, int64_t count, int64_t number, int64_t guess) {
  if (guess < count && fields[guess].number == number) return guess;
  if ((guess == count || fields[guess].number > number) && (!guess || fields[guess - 1].number < number)) return -1;
  int64_t low = 0, high = count;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (fields[middle].number == number) return middle;
    if (fields[middle].number < number)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

/* What a oneof had before is gone. */
static void clear_others(const protobuf_step *fields, protobuf_slot *slots, int64_t count, int64_t place) {
  for (int64_t i = 0; i < count; i++)
    if (fields[i].oneof == fields[place].oneof && i != place) slots[i].count = 0, slots[i].value = 0;
}

static protobuf_reason scan(reader *from, int64_t header, value message, int depth, int64_t owner) {
  const protobuf_step *fields = &from->list->steps[header + 1];
  protobuf_slot *slots = &from->list->slots[header + 1];
  const uint8_t *at = message.at, *start = at, *end = at + message.number;
  int64_t count = fields[-1].a, guess = 0, place = -1;
  protobuf_reason why = PB_GOOD;
  for (int64_t i = 0; i < count; i++) slots[i].count = 0, slots[i].value = 0;
  while (at < end) {
    uint32_t tag;
    value found = {0};
    bool counts;
    start = at;
    place = -1;
    if ((why = read_tag(&at, end, &tag))) break;
    place = find_field(fields, count, tag >> 3, guess);
    if ((why = read_value(&at, end, tag, depth, &found))) break;
    if (place < 0) continue;
    const protobuf_step *step = &fields[place];
    if ((why = check(from, step, tag & 7, &found, depth, &counts))) break;
    if (!counts) continue;
    if (step->oneof) clear_others(fields, slots, count, place);
    protobuf_slot *slot = &slots[place];
    if (!slot->count++) slot->first = start;
    slot->last = at;
    slot->at = found.at;
    slot->value = as_number(step->op, found.number);
    guess = step->flags & PB_REPEATED ? place : place + 1;
  }
  if (!why) return PB_GOOD;
  from->step = place < 0 ? owner : header + 1 + place;
  if (!depth) from->place = start - from->record;
  return why;
}

/* The next value of a field; false behind the last, or when it can't be read. */
static bool next_value(const protobuf_step *step, occurrences *of, int depth, value *found, protobuf_reason *why) {
  uint32_t tag = (uint32_t)protobuf_wire_type(step);
  while (of->inside == of->inside_end) {
    if (of->at == of->end) return false;
    if ((*why = read_tag(&of->at, of->end, &tag)) || (*why = read_value(&of->at, of->end, tag, depth, found))) return false;
    if (tag >> 3 != step->number || !accepts(step, tag & 7)) continue;
    if ((tag & 7) == protobuf_wire_type(step)) return true;
    of->inside = found->at;
    of->inside_end = found->at + found->number;
    tag = (uint32_t)protobuf_wire_type(step);
  }
  *why = read_value(&of->inside, of->inside_end, tag, depth, found);
  return !*why;
}

static occurrences all_of(const protobuf_slot *slot) {
  return slot->count ? (occurrences){.at = slot->first, .end = slot->last} : (occurrences){0};
}

/* Each part of a message is whole by itself, or the next one would make up for what it lacks. */
static protobuf_reason check_part(value part, int depth) {
  const uint8_t *at = part.at, *end = at + part.number;
  protobuf_reason why = PB_GOOD;
  while (!why && at < end) {
    uint32_t tag;
    value passed;
    why = read_tag(&at, end, &tag);
    if (!why) why = read_value(&at, end, tag, depth, &passed);
  }
  return why;
}

/* A message that came in parts: it is what they are one behind the other. */
static protobuf_reason merge(reader *from, const protobuf_step *step, const protobuf_slot *slot, int depth, value *whole) {
  merged *made = malloc(sizeof *made + (size_t)(slot->last - slot->first));
  if (!made) return PB_NO_MEMORY;
  made->next = from->parts;
  from->parts = made;
  *whole = (value){made->bytes, 0};
  occurrences of = all_of(slot);
  protobuf_reason why = PB_GOOD;
  for (value part; next_value(step, &of, depth, &part, &why) && !(why = check_part(part, depth + 1)); whole->number += part.number)
    if (part.number) memcpy(made->bytes + whole->number, part.at, part.number);
  return why;
}

/* --- then: each field is appended ------------------------------------------------------------- */

#define APPEND(type, number)                             \
  do {                                                   \
    if (!tree_ready(to)) return PB_NO_MEMORY;            \
    ((type *)(void *)to->values)[to->rows++] = (number); \
    return PB_GOOD;                                      \
  } while (0)

static protobuf_reason append_number(tree_column *to, int64_t op, uint64_t number) {
  switch (op) {
    case PB_BOOL: APPEND(uint8_t, (uint8_t)number);
    case PB_INT32:
    case PB_SINT32:
    case PB_FIXED32:
    case PB_FLOAT: APPEND(uint32_t, (uint32_t)number); /* a float by its bits */
    default: APPEND(uint64_t, number);
  }
}

static protobuf_reason append_bytes(tree_column *to, const void *from, size_t size) {
  return tree_bytes(to, from, size) ? PB_GOOD : PB_NO_MEMORY;
}

/* This and append_time() are calls, or what they need of the stack would be made and guarded for every field. */
static __attribute__((noinline)) protobuf_reason append_name(reader *from, const protobuf_step *step, int64_t column,
                                                             int32_t number) {
  tree_column *to = &from->into->columns[column];
  const constant *name = find_name(from->list, step, number);
  if (name) return append_bytes(to, name->data, name->size);
  int64_t other = from->list->table[step->a + 1];
  if (other < 0) return tree_null(from->into, (int32_t)column) ? PB_GOOD : PB_NO_MEMORY;
  char text[PB_MOST_PREFIX + sizeof "-2147483648"];
  name = &from->list->constants[other];
  memcpy(text, name->data, name->size);
  int size = snprintf(text + name->size, sizeof text - name->size, "%d", number);
  return append_bytes(to, text, name->size + (size_t)size);
}

/* Microseconds, out of seconds and nanoseconds, which are cut off. */
static __attribute__((noinline)) protobuf_reason append_time(reader *from, const protobuf_step *step, tree_column *to,
                                                             value message, int depth) {
  int64_t place = from->step, micros;
  if (depth > MOST_DEPTH) return PB_DEPTH;
  protobuf_reason why = scan(from, step->a, message, depth, place);
  if (why) return why;
  const protobuf_slot *slots = &from->list->slots[step->a + 1];
  from->step = place;
  if (__builtin_mul_overflow((int64_t)slots[0].value, (int64_t)MICROS, &micros) ||
      __builtin_add_overflow(micros, (int64_t)((int32_t)slots[1].value / NANOS_IN_MICRO), &micros))
    return PB_RANGE;
  APPEND(int64_t, micros);
}

static protobuf_reason append_message(reader *from, int64_t header, value message, int depth, int64_t owner);

static protobuf_reason append(reader *from, const protobuf_step *step, int64_t column, value found, int depth) {
  tree_column *to = &from->into->columns[column];
  switch (step->op) {
    case PB_SUBMESSAGE: return append_message(from, step->a, found, depth + 1, from->step);
    case PB_TIME: return append_time(from, step, to, found, depth + 1);
    case PB_ENUM: return append_name(from, step, column, (int32_t)found.number);
    case PB_STRING:
    case PB_BYTES: return append_bytes(to, found.at, found.number);
    default: return append_number(to, step->op, found.number);
  }
}

static protobuf_reason append_list(reader *from, const protobuf_step *step, const protobuf_slot *slot, int depth) {
  occurrences of = all_of(slot);
  int64_t place = from->step;
  protobuf_reason why = PB_GOOD;
  for (value item; next_value(step, &of, depth, &item, &why);) {
    bool counts = true;
    from->step = place;
    if (step->op == PB_STRING && !is_utf8(item.at, item.number)) return PB_UTF8;
    if (step->op == PB_ENUM && (why = check_enum(from, step, item.number, depth, &counts))) return why;
    item.number = as_number(step->op, item.number);
    if (counts && (why = append(from, step, step->column + 1, item, depth))) return why;
  }
  if (why) return why;
  return tree_list(&from->into->columns[step->column]) ? PB_GOOD : PB_NO_MEMORY;
}

static protobuf_reason append_default(reader *from, const protobuf_step *step, int depth) {
  static const uint8_t nothing;
  value found = {&nothing, 0};
  if (step->op == PB_BYTES || step->op == PB_STRING) {
    const constant *text = &from->list->constants[step->b];
    found = (value){text->data, text->size};
  } else if (step->op < PB_BYTES)
    found.number = (uint64_t)step->b;
  if (step->op != PB_ENUM) return append(from, step, step->column, found, depth);
  bool counts;
  protobuf_reason why = check_enum(from, step, found.number, depth, &counts);
  return why ? why : append(from, step, step->column, found, depth);
}

static inline protobuf_reason append_field(reader *from, const protobuf_step *step, const protobuf_slot *slot, int depth) {
  value found = {slot->at, slot->value};
  if (step->flags & PB_REPEATED) return append_list(from, step, slot, depth);
  if (!slot->count && step->flags & PB_DEFAULT) return append_default(from, step, depth);
  if (!slot->count && step->flags & PB_REQUIRED) return PB_MISSING;
  if (!slot->count || (step->flags & PB_IMPLICIT && !slot->value))
    return tree_null(from->into, (int32_t)step->column) ? PB_GOOD : PB_NO_MEMORY;
  if (slot->count > 1 && step->op >= PB_SUBMESSAGE) {
    protobuf_reason why = merge(from, step, slot, depth, &found);
    if (why) return why;
  }
  return append(from, step, step->column, found, depth);
}

static protobuf_reason append_message(reader *from, int64_t header, value message, int depth, int64_t owner) {
  if (depth > MOST_DEPTH) return PB_DEPTH;
  protobuf_reason why = scan(from, header, message, depth, owner);
  if (why) return why;
  const protobuf_step *step = &from->list->steps[header];
  if (step->column >= 0) {
    tree_column *to = &from->into->columns[step->column];
    if (!tree_ready(to)) return PB_NO_MEMORY;
    to->rows++;
  }
  for (int64_t place = header + 1; place <= header + step->a; place++) {
    const protobuf_slot *slot = &from->list->slots[place];
    from->step = place;
    if (!depth) from->place = (slot->count ? slot->first : message.at + message.number) - from->record;
    if (from->list->steps[place].column < 0) continue;
    if ((why = append_field(from, &from->list->steps[place], slot, depth))) return why;
  }
  return PB_GOOD;
}

protobuf_error protobuf_read(const protobuf_list *list, tree *into, const uint8_t *bytes, size_t size, bool framed) {
  reader from = {.list = list, .into = into, .record = bytes, .step = -1};
  const uint8_t *at = bytes;
  protobuf_reason why = framed ? pass_frame(list, &at, bytes + size) : PB_GOOD;
  if (!why) why = append_message(&from, 0, (value){at, (uint64_t)(bytes + size - at)}, 0, -1);
  while (from.parts) {
    merged *last = from.parts;
    from.parts = last->next;
    free(last);
  }
  return (protobuf_error){why, from.place, from.step};
}
