/* The interpreter of steps.  Bytes are never read behind their end, nor are columns without room written to; what a list
 * of steps may do to the memory was checked by avro_valid(). */
#include "avro_wire.h"

#include "arrow/utf8.h"

enum { MOST_EMPTY_ITEMS = 4096 };

/* --- what is appended ------------------------------------------------------------------------- */

#define APPEND(type, value)                            \
  do {                                                 \
    if (!tree_ready(to)) return AVRO_NO_MEMORY;        \
    ((type *)(void *)to->values)[to->rows++] = (value); \
    return AVRO_GOOD;                                  \
  } while (0)

static inline avro_reason append_int(reader *from, tree_column *to) {
  int64_t number;
  avro_reason why = read_int(from, &number);
  if (why) return why;
  APPEND(int32_t, (int32_t)number);
}

static inline avro_reason append_long(reader *from, tree_column *to, bool is_int, int64_t factor) {
  int64_t number;
  avro_reason why = is_int ? read_int(from, &number) : read_long(from, &number);
  if (why) return why;
  if (factor != 1 && __builtin_mul_overflow(number, factor, &number)) return AVRO_RANGE;
  APPEND(int64_t, number);
}

static avro_reason append_as_float(reader *from, tree_column *to, bool is_int) {
  int64_t number;
  avro_reason why = is_int ? read_int(from, &number) : read_long(from, &number);
  if (why) return why;
  APPEND(float, (float)number);
}

static avro_reason append_as_double(reader *from, tree_column *to, bool is_int) {
  int64_t number;
  avro_reason why = is_int ? read_int(from, &number) : read_long(from, &number);
  if (why) return why;
  APPEND(double, (double)number);
}

static inline avro_reason append_float(reader *from, tree_column *to, bool as_double) {
  const uint8_t *found;
  float number;
  avro_reason why = take(from, sizeof number, &found);
  if (why) return why;
  memcpy(&number, found, sizeof number);
  if (as_double) APPEND(double, (double)number);
  APPEND(float, number);
}

static inline avro_reason append_double(reader *from, tree_column *to) {
  const uint8_t *found;
  double number;
  avro_reason why = take(from, sizeof number, &found);
  if (why) return why;
  memcpy(&number, found, sizeof number);
  APPEND(double, number);
}

static inline avro_reason append_boolean(reader *from, tree_column *to) {
  const uint8_t *found;
  avro_reason why = take(from, 1, &found);
  if (why) return why;
  if (*found > 1) return AVRO_NO_BOOLEAN;
  APPEND(uint8_t, *found);
}

static inline __attribute__((always_inline)) avro_reason append_bytes(reader *from, tree_column *to, bool is_text) {
  const uint8_t *found;
  int64_t size;
  avro_reason why = take_sized(from, &found, &size);
  if (why) return why;
  if (is_text && !is_utf8(found, (size_t)size)) return AVRO_UTF8;
  return tree_bytes(to, found, (size_t)size) ? AVRO_GOOD : AVRO_NO_MEMORY;
}

static avro_reason append_fixed(reader *from, tree_column *to, int64_t size) {
  const uint8_t *found;
  avro_reason why = take(from, size, &found);
  if (why) return why;
  return tree_bytes(to, found, (size_t)size) ? AVRO_GOOD : AVRO_NO_MEMORY;
}

/* Two's complement, the highest byte first, as Arrow has it in 128 bits: the lowest first. */
static avro_reason append_unscaled(tree_column *to, const uint8_t *from, size_t size, int64_t digits) {
  if (!size) return AVRO_DIGITS;
  uint8_t sign = from[0] & 0x80 ? 0xFF : 0;
  while (size > sizeof(__int128) && *from == sign) from++, size--;
  if (size > sizeof(__int128) || ((from[0] ^ sign) & 0x80)) return AVRO_DIGITS;
  unsigned __int128 number = sign ? ~(unsigned __int128)0 : 0, most = 1;
  for (size_t i = 0; i < size; i++) number = number << 8 | from[i];
  for (int64_t i = 0; i < digits; i++) most *= 10;
  if ((sign ? -number : number) >= most) return AVRO_DIGITS;
  if (!tree_ready(to)) return AVRO_NO_MEMORY;
  memcpy(to->values + (size_t)to->rows++ * sizeof number, &number, sizeof number);
  return AVRO_GOOD;
}

static avro_reason append_decimal(reader *from, tree_column *to, int64_t digits, int64_t size) {
  const uint8_t *found;
  avro_reason why = size < 0 ? take_sized(from, &found, &size) : take(from, size, &found);
  return why ? why : append_unscaled(to, found, (size_t)size, digits);
}

static avro_reason append_symbol(reader *from, tree_column *to, const avro_step *step) {
  int64_t number;
  avro_reason why = read_int(from, &number);
  if (why) return why;
  if (number < 0 || number >= step->b) return AVRO_SYMBOL;
  int64_t symbol = from->list->table[step->a + number];
  if (symbol < 0) return AVRO_SYMBOL;
  const constant *text = &from->list->constants[symbol];
  return tree_bytes(to, text->data, text->size) ? AVRO_GOOD : AVRO_NO_MEMORY;
}

static inline avro_reason append_struct(tree_column *to) {
  if (!tree_ready(to)) return AVRO_NO_MEMORY;
  to->rows++;
  return AVRO_GOOD;
}

static inline avro_reason append_null(reader *from, int64_t column) {
  return tree_null(from->into, (int32_t)column) ? AVRO_GOOD : AVRO_NO_MEMORY;
}

/* --- where to go on --------------------------------------------------------------------------- */

static inline void go_on_at(reader *from, int64_t step) { from->next = &from->list->steps[step]; }

static avro_reason enter(reader *from, int64_t step) {
  if (from->depth == MOST_FRAMES) return AVRO_DEPTH;
  from->frames[from->depth++] = (frame){.step = step};
  return AVRO_GOOD;
}

/* Items that can't be there are known before the first is read. */
static avro_reason check_count(reader *from, int64_t count, int64_t least) {
  if (least) return (uint64_t)count > left(from) / (uint64_t)least ? AVRO_TRUNCATED : AVRO_GOOD;
  if (count > MOST_EMPTY_ITEMS - from->empty) return AVRO_ITEMS;
  from->empty += count;
  return AVRO_GOOD;
}

/* The next block of items: go to the first of them, or behind the list. */
static avro_reason read_block(reader *from) {
  frame *of = &from->frames[from->depth - 1];
  const avro_step *list = &from->list->steps[of->step];
  int64_t count, size;
  avro_reason why;
  while (!(why = read_long(from, &count)) && count < 0) {
    const uint8_t *passed;
    if ((why = read_long(from, &size))) return why;
    if (size < 0 || count == INT64_MIN) return AVRO_LENGTH;
    if (list->op == AVRO_LIST) {
      count = -count;
      break;
    }
    if ((why = take(from, size, &passed))) return why;
  }
  if (why || (count && (why = check_count(from, count, list->b)))) return why;
  if (count) {
    of->left = count;
    from->next = list + 1;
    return AVRO_GOOD;
  }
  from->depth--;
  go_on_at(from, list->a);
  return list->op == AVRO_SKIP_LIST || tree_list(&from->into->columns[list->column]) ? AVRO_GOOD : AVRO_NO_MEMORY;
}

static avro_reason start_list(reader *from) {
  avro_reason why = enter(from, from->next - from->list->steps - 1);
  return why ? why : read_block(from);
}

static avro_reason next_item(reader *from) {
  if (!from->depth) return AVRO_DEPTH;
  frame *of = &from->frames[from->depth - 1];
  if (--of->left <= 0) return read_block(from);
  go_on_at(from, of->step + 1);
  return AVRO_GOOD;
}

static inline avro_reason choose_nullable(reader *from, const avro_step *step) {
  int64_t branch;
  if (left(from) && !(*from->at & ~2)) /* 0 or 1 */
    branch = *from->at++ >> 1;
  else {
    avro_reason why = read_long(from, &branch);
    if (why) return why;
    if (branch != 0 && branch != 1) return AVRO_BRANCH;
  }
  if (branch != step->a) return AVRO_GOOD;
  go_on_at(from, step->b);
  return step->op == AVRO_NULLABLE ? append_null(from, step->column) : AVRO_GOOD;
}

static avro_reason choose(reader *from, const avro_step *step) {
  int64_t branch;
  avro_reason why = read_long(from, &branch);
  if (why) return why;
  if (branch < 0 || branch >= step->b) return AVRO_BRANCH;
  go_on_at(from, from->list->table[step->a + branch]);
  return AVRO_GOOD;
}

static avro_reason read_default(reader *from, int64_t number) {
  const constant *data = &from->list->constants[number];
  from->record_start = from->start, from->record_at = from->at, from->record_end = from->end;
  from->start = from->at = data->data;
  from->end = data->data + data->size;
  return AVRO_GOOD;
}

static avro_reason read_record_again(reader *from) {
  from->start = from->record_start, from->at = from->record_at, from->end = from->record_end;
  return AVRO_GOOD;
}

static avro_reason call(reader *from, int64_t routine) {
  avro_reason why = enter(from, from->next - from->list->steps);
  go_on_at(from, routine);
  return why;
}

static avro_reason come_back(reader *from) {
  if (!from->depth) return AVRO_DEPTH;
  go_on_at(from, from->frames[--from->depth].step);
  return AVRO_GOOD;
}

/* --- passed over ------------------------------------------------------------------------------ */

static avro_reason skip_varints(reader *from, int64_t count, bool are_ints) {
  int64_t number;
  avro_reason why = AVRO_GOOD;
  if (are_ints)
    while (!why && count-- > 0) why = read_int(from, &number);
  else
    while (!why && count-- > 0) why = read_long(from, &number);
  return why;
}

static avro_reason skip_bytes(reader *from) {
  const uint8_t *passed;
  int64_t size;
  return take_sized(from, &passed, &size);
}

static avro_reason skip_fixed(reader *from, int64_t size) {
  const uint8_t *passed;
  return take(from, size, &passed);
}

static avro_reason skip_items(reader *from, int64_t size) {
  int64_t count;
  for (;;) {
    avro_reason why = read_long(from, &count);
    if (why || !count) return why;
    if (count < 0)
      why = skip_bytes(from);
    else if (!(why = check_count(from, count, size)))
      from->at += count * size;
    if (why) return why;
  }
}

/* --- all of it -------------------------------------------------------------------------------- */

static avro_reason do_step(reader *from, const avro_step *step, tree_column *to) {
  switch ((avro_op)step->op) {
    case AVRO_NULL: return append_null(from, step->column);
    case AVRO_STRUCT: return append_struct(to);
    case AVRO_BOOLEAN: return append_boolean(from, to);
    case AVRO_INT: return append_int(from, to);
    case AVRO_LONG: return append_long(from, to, false, step->a);
    case AVRO_INT_AS_LONG: return append_long(from, to, true, step->a);
    case AVRO_INT_AS_FLOAT: return append_as_float(from, to, true);
    case AVRO_INT_AS_DOUBLE: return append_as_double(from, to, true);
    case AVRO_LONG_AS_FLOAT: return append_as_float(from, to, false);
    case AVRO_LONG_AS_DOUBLE: return append_as_double(from, to, false);
    case AVRO_FLOAT: return append_float(from, to, false);
    case AVRO_FLOAT_AS_DOUBLE: return append_float(from, to, true);
    case AVRO_DOUBLE: return append_double(from, to);
    case AVRO_BYTES: return append_bytes(from, to, false);
    case AVRO_STRING: return append_bytes(from, to, true);
    case AVRO_FIXED: return append_fixed(from, to, step->a);
    case AVRO_DECIMAL: return append_decimal(from, to, step->a, -1);
    case AVRO_DECIMAL_FIXED: return append_decimal(from, to, step->a, step->b);
    case AVRO_ENUM: return append_symbol(from, to, step);
    case AVRO_LIST:
    case AVRO_SKIP_LIST: return start_list(from);
    case AVRO_NEXT: return next_item(from);
    case AVRO_SKIP_NULLABLE:
    case AVRO_NULLABLE: return choose_nullable(from, step);
    case AVRO_UNION: return choose(from, step);
    case AVRO_JUMP: go_on_at(from, step->a); return AVRO_GOOD;
    case AVRO_FAIL: return step->b ? AVRO_NO_SCHEMA : AVRO_UNRESOLVED;
    case AVRO_DEFAULT: return read_default(from, step->a);
    case AVRO_FROM_RECORD: return read_record_again(from);
    case AVRO_SKIP_VARINTS: return skip_varints(from, step->a, step->b);
    case AVRO_SKIP_BYTES: return skip_bytes(from);
    case AVRO_SKIP_FIXED: return skip_fixed(from, step->a);
    case AVRO_SKIP_ITEMS: return skip_items(from, step->a);
    case AVRO_CALL: return call(from, step->a);
    case AVRO_RETURN: return come_back(from);
    case AVRO_END:
    case AVRO_OPS: break;
  }
  return AVRO_DEPTH;
}

avro_error avro_read(const avro_list *list, tree *into, const uint8_t *bytes, size_t start, size_t size) {
  reader from;
  from.start = from.record_start = bytes;
  from.at = from.record_at = bytes + start;
  from.end = from.record_end = bytes + size;
  from.list = list;
  from.into = into;
  from.next = list->steps;
  from.empty = from.depth = 0;
  avro_reason why = AVRO_GOOD;
  const avro_step *step;
  tree_column *columns = into->columns;
  while ((step = from.next++)->op != AVRO_END)
    if ((why = do_step(&from, step, &columns[step->column]))) break;
  if (!why && from.at < from.end) why = AVRO_TRAILING;
  return (avro_error){why, from.at - from.start, why == AVRO_UNRESOLVED || why == AVRO_NO_SCHEMA ? step->a : -1};
}
