/* Rows of Arrow's columns become Kafka's record batches (magic 2): the decoder's twin.
 *
 * The first pass over the rows finds the partition, the batch and the length of each, so that the second one writes every
 * byte where it stays.  Nothing is written before all rows are known to be right and to fit. */
#include "encoder.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "arrow/arrow.h"
#include "arrow/blocks.h"
#include "crc32c.h"
#include "layout.h"

enum { KEY, VALUE, HEADERS, TIMESTAMP, TOPIC, PARTITION, COLUMNS };
static const char *const FORMATS[COLUMNS] = {"z", "z", "+l", "l", "i", "i"};
enum { MOST_SLOTS = 1 << 24, LARGEST = 1 << 30 };

/* Why a row is refused. */
typedef enum { REFUSED_NOT, REFUSED_SIZE, REFUSED_PARTITION, REFUSED_TIMESTAMP, REFUSED_HEADER, REFUSED_TOPIC, REFUSED_ARROW } refusal;

/* --- columns, as Arrow has them ----------------------------------------------------------------- */

typedef struct {
  const uint8_t *valid; /* NULL: all are */
  const void *numbers;  /* of a row, or where its bytes or headers begin */
  const uint8_t *bytes;
  int64_t offset; /* of the first row in all of these */
} column;

typedef struct {
  column all[COLUMNS], names, values; /* the last two are inside of headers */
  column entries;
  int64_t rows;
} rows_view;

typedef struct {
  const uint8_t *bytes; /* NULL: null */
  int64_t length;
} blob;

static column column_of(const struct ArrowArray *array, int64_t parent_offset) {
  return (column){.valid = array->null_count ? array->buffers[0] : NULL,
                  .numbers = array->n_buffers > 1 ? array->buffers[1] : NULL,
                  .bytes = array->n_buffers > 2 ? array->buffers[2] : NULL,
                  .offset = array->offset + parent_offset};
}

static inline bool is_null(const column *from, int64_t row) {
  int64_t at = row + from->offset;
  return from->valid && !(from->valid[at / 8] >> (at % 8) & 1);
}

static inline int32_t int32_of(const column *from, int64_t row) { return ((const int32_t *)from->numbers)[row + from->offset]; }

/* Where a row's bytes or headers begin, and how many they are; false if that can't be. */
static inline bool range_of(const column *from, int64_t row, int64_t *first, int64_t *length) {
  *first = int32_of(from, row);
  *length = int32_of(from, row + 1) - *first;
  return *first >= 0 && *length >= 0;
}

static inline bool blob_of(const column *from, int64_t row, blob *into) {
  static const uint8_t none;
  *into = (blob){0};
  if (is_null(from, row)) return true;
  int64_t first;
  if (!range_of(from, row, &first, &into->length)) return false;
  into->bytes = into->length ? from->bytes + first : &none;
  return true;
}

/* --- numbers ------------------------------------------------------------------------------------ */

static inline uint64_t zigzag(int64_t number) { return (uint64_t)number << 1 ^ (uint64_t)(number >> 63); }

static inline int64_t size_of_long(int64_t number) { return ((63 - __builtin_clzll(zigzag(number) | 1)) * 9 + 73) / 64; }

static inline uint8_t *put_long(uint8_t *at, int64_t number) {
  uint64_t raw = zigzag(number);
  for (; raw > 0x7F; raw >>= 7) *at++ = (uint8_t)(raw | 0x80);
  *at++ = (uint8_t)raw;
  return at;
}

static void put_big(uint8_t *at, int bytes, int64_t number) {
  for (int i = bytes; i-- > 0; number >>= 8) at[i] = (uint8_t)number;
}

static inline int64_t size_of_blob(const blob *one) { return size_of_long(one->bytes ? one->length : -1) + one->length; }

static inline uint8_t *put_blob(uint8_t *at, const blob *one) {
  at = put_long(at, one->bytes ? one->length : -1);
  if (one->length) memcpy(at, one->bytes, (size_t)one->length);
  return at + one->length;
}

/* Kafka's Utils.murmur2(). */
static uint32_t murmur2(const uint8_t *at, size_t length) {
  const uint32_t by = 0x5bd1e995;
  uint32_t hash = 0x9747b28c ^ (uint32_t)length, word;
  for (; length >= 4; at += 4, length -= 4) {
    memcpy(&word, at, 4);
    word *= by;
    hash = (hash * by) ^ ((word ^ word >> 24) * by);
  }
  if (length > 2) hash ^= (uint32_t)at[2] << 16;
  if (length > 1) hash ^= (uint32_t)at[1] << 8;
  if (length > 0) hash = (hash ^ at[0]) * by;
  hash = (hash ^ hash >> 13) * by;
  return hash ^ hash >> 15;
}

/* --- the first pass: which row goes where ------------------------------------------------------- */

/* As Python has it: partitions are numbered through over all topics, a topic's being [base, base + count). */
typedef struct {
  int64_t base, count;
  int64_t sticky, sticky_bytes; /* the partition for rows without a key, and what it has got of them */
} topic_slots;

typedef struct {
  int64_t slot, records, size; /* with its header */
  int64_t first_time, last_time;
  uint8_t *start, *at;
  int64_t put; /* records */
} batch;

typedef struct {
  rows_view rows;
  topic_slots *topics;
  size_t topic_count;
  int64_t limit, largest, now; /* bytes of a batch of several records, and of any; what null is among timestamps */
  int32_t *batch_of, *lengths; /* of each row */
  int32_t *open;               /* of each slot: its last batch, -1 */
  batch *batches;
  size_t count, room;
  int64_t total;
  int64_t row, number; /* of a refusal */
} encoding;

static inline int64_t time_of(const encoding *all, int64_t row) {
  const column *times = &all->rows.all[TIMESTAMP];
  return is_null(times, row) ? all->now : ((const int64_t *)times->numbers)[row + times->offset];
}

static inline bool header_of(const rows_view *rows, int64_t at, blob *name, blob *value) {
  int64_t inner = at + rows->entries.offset;
  return !is_null(&rows->entries, at) && blob_of(&rows->names, inner, name) && name->bytes && blob_of(&rows->values, inner, value);
}

static refusal measure_headers(const rows_view *rows, int64_t row, int64_t *size) {
  int64_t first = 0, count = 0;
  if (!is_null(&rows->all[HEADERS], row) && !range_of(&rows->all[HEADERS], row, &first, &count)) return REFUSED_ARROW;
  *size += size_of_long(count);
  for (int64_t i = first; i < first + count; i++) {
    blob name, value;
    if (!header_of(rows, i, &name, &value)) return REFUSED_HEADER;
    *size += size_of_blob(&name) + size_of_blob(&value);
  }
  return REFUSED_NOT;
}

static refusal find_slot(encoding *all, int64_t row, const blob *key, topic_slots **topic, int64_t *slot) {
  const column *topics = &all->rows.all[TOPIC], *partitions = &all->rows.all[PARTITION];
  int32_t code = is_null(topics, row) ? -1 : int32_of(topics, row);
  if (code < 0 || (size_t)code >= all->topic_count || !all->topics[code].count) return REFUSED_TOPIC;
  *topic = &all->topics[code];
  int64_t count = (*topic)->count, number;
  if (!is_null(partitions, row))
    number = int32_of(partitions, row);
  else if (key->bytes)
    number = (murmur2(key->bytes, (size_t)key->length) & 0x7FFFFFFF) % count;
  else
    number = (*topic)->sticky;
  all->number = number;
  if (number < 0 || number >= count) return REFUSED_PARTITION;
  *slot = (*topic)->base + number;
  return REFUSED_NOT;
}

static batch *new_batch(encoding *all, int64_t slot, int64_t time) {
  if (all->count == all->room) {
    size_t room = all->room ? 2 * all->room : 64;
    batch *moved = realloc(all->batches, room * sizeof *moved);
    if (!moved) return NULL;
    all->batches = moved;
    all->room = room;
  }
  all->open[slot] = (int32_t)all->count;
  all->batches[all->count] = (batch){.slot = slot, .size = HEADER, .first_time = time, .last_time = time};
  return &all->batches[all->count++];
}

static inline int64_t record_length(int64_t fixed, int64_t delta, int64_t number) {
  return fixed + size_of_long(delta) + size_of_long(number);
}

/* -1: no memory. */
static int place_row(encoding *all, int64_t row) {
  blob key, value;
  topic_slots *topic;
  int64_t slot, fixed = 1, time = time_of(all, row);
  if (!blob_of(&all->rows.all[KEY], row, &key) || !blob_of(&all->rows.all[VALUE], row, &value)) return REFUSED_ARROW;
  refusal why = find_slot(all, row, &key, &topic, &slot);
  if (why == REFUSED_NOT && time < 0) {
    all->number = time;
    why = REFUSED_TIMESTAMP;
  }
  fixed += size_of_blob(&key) + size_of_blob(&value);
  if (why == REFUSED_NOT) why = measure_headers(&all->rows, row, &fixed);
  if (why != REFUSED_NOT) return (int)why;
  batch *into = all->open[slot] < 0 ? NULL : &all->batches[all->open[slot]];
  int64_t length = into ? record_length(fixed, time - into->first_time, into->records) : 0;
  if (!into || into->size + size_of_long(length) + length > all->limit) {
    length = record_length(fixed, 0, 0);
    if ((all->number = HEADER + size_of_long(length) + length) > all->largest) return REFUSED_SIZE;
    if (!(into = new_batch(all, slot, time))) return -1;
    all->total += HEADER;
  }
  int64_t size = size_of_long(length) + length;
  into->size += size;
  into->records++;
  if (time > into->last_time) into->last_time = time;
  all->total += size;
  all->lengths[row] = (int32_t)length;
  all->batch_of[row] = (int32_t)(into - all->batches);
  if (!key.bytes && (topic->sticky_bytes += size) >= all->limit) { /* as BuiltInPartitioner: a batch, then the next partition */
    topic->sticky = (topic->sticky + 1) % topic->count;
    topic->sticky_bytes = 0;
  }
  return REFUSED_NOT;
}

static int place_rows(encoding *all) {
  int why = REFUSED_NOT;
  for (all->row = 0; all->row < all->rows.rows; all->row++)
    if ((why = place_row(all, all->row)) != REFUSED_NOT) break;
  return why;
}

/* --- the second pass: writing ------------------------------------------------------------------- */

static void write_rows(encoding *all) {
  const rows_view *rows = &all->rows;
  for (int64_t row = 0; row < rows->rows; row++) {
    batch *into = &all->batches[all->batch_of[row]];
    blob key, value, name;
    int64_t first = 0, count = 0;
    blob_of(&rows->all[KEY], row, &key);
    blob_of(&rows->all[VALUE], row, &value);
    uint8_t *at = put_long(into->at, all->lengths[row]);
    *at++ = 0; /* attributes: none are in use */
    at = put_long(at, time_of(all, row) - into->first_time);
    at = put_long(at, into->put++);
    at = put_blob(put_blob(at, &key), &value);
    if (!is_null(&rows->all[HEADERS], row)) range_of(&rows->all[HEADERS], row, &first, &count);
    at = put_long(at, count);
    for (int64_t i = first; i < first + count; i++) {
      header_of(rows, i, &name, &value);
      at = put_blob(put_blob(at, &name), &value);
    }
    into->at = at;
  }
}

static void write_headers(encoding *all) {
  for (batch *one = all->batches; one < all->batches + all->count; one++) {
    memset(one->start, 0, HEADER);
    put_big(one->start + LEADER_EPOCH, 4, -1);
    put_big(one->start + MAGIC, 1, 2);
    put_big(one->start + LAST_OFFSET_DELTA, 4, one->records - 1);
    put_big(one->start + FIRST_TIMESTAMP, 8, one->first_time);
    put_big(one->start + MAX_TIMESTAMP, 8, one->last_time);
    put_big(one->start + RECORDS_COUNT, 4, one->records);
  }
}

static void write_batches(encoding *all, uint8_t *into) {
  for (batch *one = all->batches; one < all->batches + all->count; one++) {
    one->start = into;
    one->at = into + HEADER;
    into += one->size;
  }
  write_rows(all);
  write_headers(all);
}

/* --- Python ------------------------------------------------------------------------------------- */

static bool has_format(const struct ArrowSchema *type, const char *format, int64_t children) {
  return strcmp(type->format, format) == 0 && type->n_children == children && !type->dictionary;
}

static bool read_view(const struct ArrowSchema *type, const struct ArrowArray *array, rows_view *into) {
  bool right = has_format(type, "+s", COLUMNS) && array->n_children == COLUMNS && array->length < INT32_MAX;
  for (int i = 0; i < COLUMNS && right; i++) {
    right = has_format(type->children[i], FORMATS[i], i == HEADERS);
    if (right) into->all[i] = column_of(array->children[i], array->offset);
  }
  const struct ArrowSchema *entry = right ? type->children[HEADERS]->children[0] : NULL;
  if (!entry || !has_format(entry, "+s", 2) || !has_format(entry->children[0], "u", 0) || !has_format(entry->children[1], "z", 0))
    return false;
  const struct ArrowArray *entries = array->children[HEADERS]->children[0];
  into->entries = column_of(entries, 0);
  into->names = column_of(entries->children[0], 0);
  into->values = column_of(entries->children[1], 0);
  into->rows = array->length;
  return true;
}

/* Room for the work on these rows and slots; false with an exception. */
static bool prepare(encoding *all) {
  int64_t slots = 0;
  for (size_t i = 0; i < all->topic_count; i++) {
    const topic_slots *one = &all->topics[i];
    bool right = one->base >= 0 && one->base < MOST_SLOTS && one->count >= 0 && one->count < MOST_SLOTS && one->sticky >= 0;
    if (!right || all->limit > LARGEST || all->largest > LARGEST) {
      PyErr_SetString(PyExc_ValueError, "bounds or topics that can't be");
      return false;
    }
    if (one->base + one->count > slots) slots = one->base + one->count;
  }
  size_t rows = (size_t)all->rows.rows;
  all->batch_of = block_new((2 * rows + (size_t)slots + 1) * sizeof(int32_t));
  if (!all->batch_of) return PyErr_NoMemory() != NULL;
  all->lengths = all->batch_of + rows;
  all->open = all->lengths + rows;
  memset(all->open, 0xFF, (size_t)slots * sizeof(int32_t));
  return true;
}

static PyObject *batch_list(const encoding *all) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < all->count; i++) {
    const batch *one = &all->batches[i];
    long long start = one->start - all->batches[0].start;
    PyObject *entry = Py_BuildValue("LLLL", (long long)one->slot, start, start + (long long)one->size, (long long)one->records);
    if (!entry || PyList_Append(list, entry) < 0) Py_CLEAR(list);
    Py_XDECREF(entry);
  }
  return list;
}

static PyObject *run(encoding *all, topic_slots *topics, const Py_buffer *room) {
  int why;
  bool fits = false;
  Py_BEGIN_ALLOW_THREADS
  why = place_rows(all);
  fits = why == REFUSED_NOT && all->total <= room->len;
  if (fits) write_batches(all, room->buf);
  Py_END_ALLOW_THREADS
  if (why < 0) return PyErr_NoMemory();
  if (why != REFUSED_NOT) return Py_BuildValue("LiL", (long long)all->row, why, (long long)all->number);
  if (!fits) return PyLong_FromLongLong(all->total);
  memcpy(topics, all->topics, all->topic_count * sizeof *topics);
  return batch_list(all);
}

static PyObject *encode(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *type, *array, *answer = NULL;
  Py_buffer topics, room;
  long long limit, largest, now;
  if (!PyArg_ParseTuple(arguments, "(OO)w*LLLw*", &type, &array, &topics, &limit, &largest, &now, &room)) return NULL;
  const struct ArrowSchema *schema = PyCapsule_GetPointer(type, "arrow_schema");
  const struct ArrowArray *rows = schema ? PyCapsule_GetPointer(array, "arrow_array") : NULL;
  encoding all = {.limit = limit, .largest = largest, .now = now, .topic_count = (size_t)topics.len / sizeof(topic_slots)};
  if (rows && !read_view(schema, rows, &all.rows))
    PyErr_SetString(PyExc_ValueError, "not the columns that are encoded");
  else if (rows && !(all.topics = malloc((size_t)topics.len + 1)))
    PyErr_NoMemory();
  else if (rows) {
    memcpy(all.topics, topics.buf, (size_t)topics.len); /* a copy: rows that don't fit come again */
    if (prepare(&all)) answer = run(&all, topics.buf, &room);
  }
  free(all.topics);
  free(all.batches);
  block_free(all.batch_of);
  PyBuffer_Release(&topics);
  PyBuffer_Release(&room);
  return answer;
}

static PyObject *seal(PyObject *module, PyObject *arguments) {
  (void)module;
  Py_buffer whole;
  int attributes, epoch, sequence;
  long long producer;
  if (!PyArg_ParseTuple(arguments, "w*iLii", &whole, &attributes, &producer, &epoch, &sequence)) return NULL;
  bool right = whole.len >= HEADER && whole.len < INT32_MAX;
  uint8_t *at = whole.buf;
  Py_BEGIN_ALLOW_THREADS
  if (right) {
    put_big(at + BATCH_LENGTH, 4, whole.len - FRAME);
    put_big(at + ATTRIBUTES, 2, attributes);
    put_big(at + PRODUCER_ID, 8, producer);
    put_big(at + PRODUCER_EPOCH, 2, epoch);
    put_big(at + BASE_SEQUENCE, 4, sequence);
    put_big(at + CRC, 4, crc32c(at + ATTRIBUTES, (size_t)whole.len - ATTRIBUTES));
  }
  Py_END_ALLOW_THREADS
  PyBuffer_Release(&whole);
  if (right) Py_RETURN_NONE;
  PyErr_SetString(PyExc_ValueError, "not a batch");
  return NULL;
}

static PyObject *hash(PyObject *module, PyObject *arguments) {
  (void)module;
  Py_buffer key;
  if (!PyArg_ParseTuple(arguments, "y*", &key)) return NULL;
  uint32_t number = murmur2(key.buf, (size_t)key.len);
  PyBuffer_Release(&key);
  return PyLong_FromLong((int32_t)number);
}

static PyMethodDef functions[] = {
    {"encode", encode, METH_VARARGS, NULL}, {"seal", seal, METH_VARARGS, NULL}, {"murmur2", hash, METH_VARARGS, NULL}, {0}};

int add_encoder(PyObject *module) {
  int failed = PyModule_AddIntConstant(module, "BATCH_HEADER", HEADER) < 0 ||
               PyModule_AddIntConstant(module, "REFUSED_SIZE", REFUSED_SIZE) < 0 ||
               PyModule_AddIntConstant(module, "REFUSED_PARTITION", REFUSED_PARTITION) < 0 ||
               PyModule_AddIntConstant(module, "REFUSED_TIMESTAMP", REFUSED_TIMESTAMP) < 0 ||
               PyModule_AddIntConstant(module, "REFUSED_HEADER", REFUSED_HEADER) < 0 ||
               PyModule_AddIntConstant(module, "REFUSED_TOPIC", REFUSED_TOPIC) < 0 ||
               PyModule_AddFunctions(module, functions) < 0;
  return failed ? -1 : 0;
}
