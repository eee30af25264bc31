/* The values of one record into their columns.  The rules are those of Spark's JacksonParser, PERMISSIVE, with partial
 * results; where ours are others, docs/reference/formats.md says so. */
#include "json.h"

#include <math.h>
#include <stdlib.h>

#include "json_names.h"
#include "json_text.h"

/* LOST: a field of the struct had a value, and then one that doesn't fit.  BAD: the column may have a part of the value, which
 * its struct takes back.  AGAIN: a number's own text is needed. */
typedef enum { DONE, LOST, BAD, AGAIN, NO_MEMORY } outcome;

static outcome put(json_reader *, int32_t at, yyjson_val *);

/* The first fault is the one that is told. */
static outcome bad(json_reader *in, int32_t at, json_reason reason) {
  if (!in->error.reason) in->error = (json_error){reason, at};
  return BAD;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static outcome put_fixed(json_reader *in, int32_t at, const void *value) {
  tree_column *column = &in->into.columns[at];
  if (!tree_ready(column)) return NO_MEMORY;
  memcpy(column->values + (size_t)column->rows++ * column->width, value, column->width);
  return DONE;
}

/* A whole number: Jackson's VALUE_NUMBER_INT, so 1.0 and 1e2 are none. */
static outcome read_long(json_reader *in, int32_t at, yyjson_val *value, int64_t *number) {
  bool fits = true;
  if (yyjson_is_raw(value)) {
    if (text_to_long(yyjson_get_raw(value), yyjson_get_len(value), number, &fits)) return DONE;
    return bad(in, at, fits ? JSON_WRONG_TYPE : JSON_OUT_OF_RANGE);
  }
  if (yyjson_is_uint(value) && yyjson_get_uint(value) > INT64_MAX) return bad(in, at, JSON_OUT_OF_RANGE);
  if (yyjson_is_int(value)) {
    *number = yyjson_get_sint(value);
    return DONE;
  }
  if (!yyjson_is_real(value)) return bad(in, at, JSON_WRONG_TYPE);
  /* A whole number of many digits is a real one here, and so is -0: only its text can tell. */
  double real = yyjson_get_real(value);
  if (real != trunc(real) || isinf(real)) return bad(in, at, JSON_WRONG_TYPE);
  return AGAIN;
}

static outcome put_whole(json_reader *in, int32_t at, yyjson_val *value) {
  int64_t number = 0;
  outcome got = read_long(in, at, value, &number);
  if (got) return got;
  int bits = 8 * (int)in->into.columns[at].width;
  if (bits < 64 && (number < -(INT64_C(1) << (bits - 1)) || number >= INT64_C(1) << (bits - 1)))
    return bad(in, at, JSON_OUT_OF_RANGE);
  /* Little endian: the low bytes are the smaller number. */
  return put_fixed(in, at, &number);
}

static bool is_text(yyjson_val *value, const char *text) { return yyjson_equals_str(value, text); }

static outcome read_double(json_reader *in, int32_t at, yyjson_val *value, double *number) {
  yyjson_val parsed;
  if (yyjson_is_raw(value)) {
    if (!yyjson_read_number(yyjson_get_raw(value), &parsed, YYJSON_READ_ALLOW_INF_AND_NAN, NULL, NULL))
      return bad(in, at, JSON_WRONG_TYPE);
    value = &parsed;
  }
  if (yyjson_is_num(value)) {
    *number = yyjson_get_num(value);
    return DONE;
  }
  if (!yyjson_is_str(value)) return bad(in, at, JSON_WRONG_TYPE);
  if (is_text(value, "NaN"))
    *number = NAN;
  else if (is_text(value, "Infinity") || is_text(value, "+Infinity") || is_text(value, "+INF"))
    *number = INFINITY;
  else if (is_text(value, "-Infinity") || is_text(value, "-INF"))
    *number = -INFINITY;
  else
    return bad(in, at, JSON_WRONG_TYPE);
  return DONE;
}

static outcome put_real(json_reader *in, int32_t at, yyjson_val *value) {
  double number = 0;
  outcome got = read_double(in, at, value, &number);
  if (got) return got;
  float single = (float)number;
  return put_fixed(in, at, in->plan.fields[at].kind == J_FLOAT ? (void *)&single : (void *)&number);
}

static outcome put_decimal(json_reader *in, int32_t at, yyjson_val *value) {
  if (yyjson_is_num(value) && !in->as_text) return AGAIN;
  bool string = yyjson_is_str(value);
  if (!string && !yyjson_is_raw(value)) return bad(in, at, JSON_WRONG_TYPE);
  const char *text = string ? yyjson_get_str(value) : yyjson_get_raw(value);
  const json_field *field = &in->plan.fields[at];
  __int128 unscaled;
  decimal_fault fault = text_to_decimal(text, yyjson_get_len(value), string, field->precision, field->scale, &unscaled);
  if (fault == DECIMAL_TOO_LARGE) return bad(in, at, JSON_OUT_OF_RANGE);
  if (fault) return bad(in, at, string ? JSON_BAD_TEXT : JSON_WRONG_TYPE); /* of the numbers, NaN and its like */
  return put_fixed(in, at, &unscaled);
}

/* --- strings ---------------------------------------------------------------------------------- */

static outcome put_bytes(json_reader *in, int32_t at, const void *bytes, size_t length) {
  return tree_bytes(&in->into.columns[at], bytes, length) ? DONE : NO_MEMORY;
}

/* What is no string stays JSON, without its spaces. */
static outcome put_string(json_reader *in, int32_t at, yyjson_val *value) {
  if (yyjson_is_str(value)) return put_bytes(in, at, yyjson_get_str(value), yyjson_get_len(value));
  if (yyjson_is_raw(value)) return put_bytes(in, at, yyjson_get_raw(value), yyjson_get_len(value));
  if (yyjson_is_bool(value)) return put_bytes(in, at, yyjson_get_bool(value) ? "true" : "false", yyjson_get_bool(value) ? 4 : 5);
  if (!in->as_text) return AGAIN;
  size_t length;
  char *text = yyjson_val_write(value, YYJSON_WRITE_NOFLAG, &length);
  if (!text) return NO_MEMORY;
  outcome got = put_bytes(in, at, text, length);
  free(text);
  return got;
}

static outcome put_binary(json_reader *in, int32_t at, yyjson_val *value) {
  if (!yyjson_is_str(value)) return bad(in, at, JSON_WRONG_TYPE);
  tree_column *column = &in->into.columns[at];
  size_t length = yyjson_get_len(value), size, most = length / 4 * 3;
  if (!tree_ready(column) || (most > column->room - column->used && !tree_grow_data(column, most))) return NO_MEMORY;
  if (!base64_to_bytes(yyjson_get_str(value), length, column->data + column->used, &size)) return bad(in, at, JSON_BAD_TEXT);
  column->used += size;
  column->offsets[++column->rows] = (int32_t)column->used;
  return DONE;
}

static outcome put_date(json_reader *in, int32_t at, yyjson_val *value) {
  int32_t days;
  if (!yyjson_is_str(value)) return bad(in, at, JSON_WRONG_TYPE);
  if (!text_to_date(yyjson_get_str(value), yyjson_get_len(value), &days)) return bad(in, at, JSON_BAD_TEXT);
  return put_fixed(in, at, &days);
}

static outcome put_timestamp(json_reader *in, int32_t at, yyjson_val *value) {
  bool zoned = in->plan.fields[at].kind == J_TIMESTAMP;
  int64_t micros;
  if (yyjson_is_str(value)) {
    const time_zone *zone = zoned ? &in->zone : NULL;
    if (!text_to_timestamp(yyjson_get_str(value), yyjson_get_len(value), zone, &micros)) return bad(in, at, JSON_BAD_TEXT);
    return put_fixed(in, at, &micros);
  }
  /* A number is seconds, but says nothing of a clock on a wall. */
  if (!zoned) return bad(in, at, JSON_WRONG_TYPE);
  outcome got = read_long(in, at, value, &micros);
  if (got) return got;
  if (__builtin_mul_overflow(micros, 1000000, &micros)) return bad(in, at, JSON_OUT_OF_RANGE);
  return put_fixed(in, at, &micros);
}

static outcome put_boolean(json_reader *in, int32_t at, yyjson_val *value) {
  if (!yyjson_is_bool(value)) return bad(in, at, JSON_WRONG_TYPE);
  return put_fixed(in, at, &(uint8_t){yyjson_get_bool(value)});
}

/* --- what has others inside ------------------------------------------------------------------- */

static inline bool is_named(const json_field *field, const char *name, size_t length) {
  return field->name_length == length && name_equals(field->name, name, length);
}

/* The column of a name, or -1.  Writers keep to an order: the field behind the last one is tried first. */
static int32_t find(const json_plan *plan, const json_field *shape, yyjson_val *key, int32_t *next) {
  const char *name = yyjson_get_str(key);
  size_t length = yyjson_get_len(key);
  if (*next < shape->count) {
    int32_t child = plan->lists[shape->first + *next];
    if (is_named(&plan->fields[child], name, length)) return ++*next, child;
  }
  if (!(shape->lengths >> length % 64 & 1)) return -1;
  const int32_t *table = plan->table + shape->slots;
  for (uint32_t place = name_hash(name, length) & (uint32_t)shape->mask; table[place] >= 0;
       place = (place + 1) & (uint32_t)shape->mask) {
    int32_t child = plan->lists[table[place]];
    if (!is_named(&plan->fields[child], name, length)) continue;
    *next = table[place] - shape->first + 1;
    return child;
  }
  return -1;
}

/* What doesn't fit loses its name, or it would be tried again with each object around it.  No column's name has a zero. */
static outcome put_field(json_reader *in, int32_t at, int64_t row, yyjson_val *key) {
  bool before = in->into.columns[at].rows > row;
  if (before) tree_cut_column(&in->into, at, row);
  outcome got = put(in, at, key + 1);
  if (got != BAD) return got;
  tree_cut_column(&in->into, at, row);
  yyjson_set_strn(key, "\0", 1);
  return before ? LOST : DONE;
}

static outcome put_fields(json_reader *in, const json_field *shape, int64_t row, yyjson_val *value) {
  int32_t next = 0;
  outcome all = DONE;
  yyjson_val *key = unsafe_yyjson_get_first(value);
  for (size_t left = yyjson_obj_size(value); left; left--, key = unsafe_yyjson_get_next(key + 1)) {
    int32_t child = find(&in->plan, shape, key, &next);
    if (child < 0) continue;
    outcome got = put_field(in, child, row, key);
    if (got > LOST) return got;
    if (got) all = LOST;
  }
  return all;
}

/* Of a field that comes twice the last value counts, among those that fit: what is lost is there once the others are gone. */
static outcome put_struct(json_reader *in, int32_t at, yyjson_val *value) {
  if (!yyjson_is_obj(value)) return bad(in, at, JSON_WRONG_TYPE);
  const json_field *shape = &in->plan.fields[at];
  tree_column *column = &in->into.columns[at];
  if (!tree_ready(column)) return NO_MEMORY;
  int64_t row = column->rows;
  outcome got = put_fields(in, shape, row, value);
  if (got == LOST) {
    tree_cut_column(&in->into, at, row);
    got = put_fields(in, shape, row, value);
  }
  if (got) return got;
  for (int32_t i = 0; i < shape->count; i++) {
    int32_t child = in->plan.lists[shape->first + i];
    if (in->into.columns[child].rows == row && !tree_null(&in->into, child)) return NO_MEMORY;
  }
  column->rows++;
  return DONE;
}

/* An element that doesn't fit costs the whole list, a struct's field that doesn't fit only itself. */
static outcome put_list(json_reader *in, int32_t at, yyjson_val *value) {
  if (!yyjson_is_arr(value)) return bad(in, at, JSON_WRONG_TYPE);
  yyjson_val *item = unsafe_yyjson_get_first(value);
  for (size_t left = yyjson_arr_size(value); left; left--, item = unsafe_yyjson_get_next(item)) {
    outcome got = put(in, at + 1, item);
    if (got) return got;
  }
  return tree_list(&in->into.columns[at]) ? DONE : NO_MEMORY;
}

/* A key that comes twice is there twice. */
static outcome put_map(json_reader *in, int32_t at, yyjson_val *value) {
  if (!yyjson_is_obj(value)) return bad(in, at, JSON_WRONG_TYPE);
  yyjson_val *key = unsafe_yyjson_get_first(value);
  for (size_t left = yyjson_obj_size(value); left; left--, key = unsafe_yyjson_get_next(key + 1)) {
    outcome got = put_string(in, at + 1, key);
    if (!got) got = put(in, at + 2, key + 1);
    if (got) return got;
  }
  return tree_list(&in->into.columns[at]) ? DONE : NO_MEMORY;
}

static outcome put(json_reader *in, int32_t at, yyjson_val *value) {
  if (yyjson_is_null(value)) return tree_null(&in->into, at) ? DONE : NO_MEMORY;
  switch (in->plan.fields[at].kind) {
    case J_STRUCT: return put_struct(in, at, value);
    case J_LIST: return put_list(in, at, value);
    case J_MAP: return put_map(in, at, value);
    case J_BOOLEAN: return put_boolean(in, at, value);
    case J_BYTE:
    case J_SHORT:
    case J_INT:
    case J_LONG: return put_whole(in, at, value);
    case J_FLOAT:
    case J_DOUBLE: return put_real(in, at, value);
    case J_STRING: return put_string(in, at, value);
    case J_BINARY: return put_binary(in, at, value);
    case J_DECIMAL: return put_decimal(in, at, value);
    case J_DATE: return put_date(in, at, value);
    default: return put_timestamp(in, at, value);
  }
}

/* --- records ---------------------------------------------------------------------------------- */

static bool reserve_pool(json_reader *in, size_t size, yyjson_read_flag flags) {
  size_t needed = yyjson_read_max_memory_usage(size, flags);
  if (needed <= in->pool_size) return true;
  free(in->pool);
  in->pool = malloc(needed);
  in->pool_size = in->pool ? needed : 0;
  return in->pool != NULL;
}

/* A record that breaks off inside of a character is broken in the first place. */
static json_error why(const yyjson_read_err *error) {
  bool text = error->code == YYJSON_READ_ERROR_INVALID_STRING && error->msg && strstr(error->msg, "UTF-8");
  return (json_error){text ? JSON_UTF8 : JSON_SYNTAX, (int64_t)error->pos};
}

/* Parse a record into the pool.  yyjson's own figure for it is that of a record that is whole: one that opens arrays and never
 * closes them needs more, and then the pool says "no memory" where the machine has plenty.  So a refusal of the pool is asked
 * again of malloc, whose refusal counts. */
static yyjson_doc *parse(json_reader *in, const char *record, size_t size, yyjson_read_err *error) {
  yyjson_read_flag flags = YYJSON_READ_STOP_WHEN_DONE | YYJSON_READ_ALLOW_INF_AND_NAN;
  if (in->as_text) flags |= YYJSON_READ_NUMBER_AS_RAW;
  yyjson_alc pool;
  char *text = (char *)(uintptr_t)record; /* without YYJSON_READ_INSITU it is only read */
  yyjson_doc *doc = NULL;
  *error = (yyjson_read_err){.code = YYJSON_READ_ERROR_MEMORY_ALLOCATION};
  if (reserve_pool(in, size, flags) && yyjson_alc_pool_init(&pool, in->pool, in->pool_size))
    doc = yyjson_read_opts(text, size, flags, &pool, error);
  if (!doc && error->code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) doc = yyjson_read_opts(text, size, flags, NULL, error);
  return doc;
}

static outcome read_values(json_reader *in, const char *record, size_t size) {
  yyjson_read_err error;
  yyjson_doc *doc = parse(in, record, size, &error);
  if (!doc) {
    if (error.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION) return NO_MEMORY;
    in->error = why(&error);
    return BAD;
  }
  yyjson_val *root = yyjson_doc_get_root(doc);
  outcome got = yyjson_is_obj(root) ? put(in, 0, root) : bad(in, 0, JSON_NOT_OBJECT);
  yyjson_doc_free(doc); /* of the pool or of malloc, as the document knows */
  return got;
}

static bool is_blank(const char *record, size_t size) {
  while (size && (*record == ' ' || *record == '\t' || *record == '\n' || *record == '\r')) record++, size--;
  return !size;
}

json_error json_read(json_reader *in, const char *record, size_t size) {
  int64_t row = in->into.columns[0].rows;
  in->error = (json_error){JSON_GOOD, 0};
  outcome got = BAD;
  if (!is_blank(record, size)) got = read_values(in, record, size);
  if (got == AGAIN) {
    /* From here on: a writer that sends such numbers once sends them again. */
    in->as_text = true;
    tree_cut(&in->into, row);
    in->error = (json_error){JSON_GOOD, 0};
    got = read_values(in, record, size);
  }
  if (got == DONE) return in->error;
  tree_cut(&in->into, row);
  if (got == BAD && tree_null(&in->into, 0)) return in->error;
  tree_cut(&in->into, row); /* also a part of a null */
  return in->error = (json_error){JSON_NO_MEMORY, 0};
}

void json_reader_free(json_reader *in) {
  json_plan_free(&in->plan);
  tree_free(&in->into);
  free(in->pool);
  free((void *)in->zone.offsets);
  in->zone = (time_zone){0};
  in->pool = NULL;
  in->pool_size = 0;
}
