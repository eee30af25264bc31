/* A column of bytes from Python, and back to it a column of values and what was wrong with which record. */
#include "avro_decoder.h"

#include <errno.h>
#include <stdlib.h>

#include "avro.h"
#include "records.h"

enum { FRAME = 5, MOST_MISSING = 1000, UNFRAMED = -1 };

typedef struct {
  avro_list list;
  void *memory; /* of all that the list points to */
} entry;

typedef struct {
  PyObject_HEAD
  tree into; /* empty between calls */
  entry *entries; /* by id, ascending */
  size_t entry_count;
  int busy; /* records are read, without the interpreter's lock */
} AvroDecoder;

/* --- lists of steps --------------------------------------------------------------------------- */

static size_t entry_at(const AvroDecoder *self, int64_t id) {
  size_t low = 0, high = self->entry_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (self->entries[middle].list.id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static const avro_list *find(const AvroDecoder *self, int64_t id) {
  size_t at = entry_at(self, id);
  return at < self->entry_count && self->entries[at].list.id == id ? &self->entries[at].list : NULL;
}

static void drop(AvroDecoder *self, int64_t id) {
  size_t at = entry_at(self, id);
  if (at == self->entry_count || self->entries[at].list.id != id) return;
  free(self->entries[at].memory);
  memmove(&self->entries[at], &self->entries[at + 1], (--self->entry_count - at) * sizeof(entry));
}

static bool put(AvroDecoder *self, const entry *made) {
  entry *entries = realloc(self->entries, (self->entry_count + 1) * sizeof *entries);
  if (!entries) return false;
  self->entries = entries;
  size_t at = entry_at(self, made->list.id);
  memmove(&entries[at + 1], &entries[at], (self->entry_count++ - at) * sizeof *entries);
  entries[at] = *made;
  return true;
}

static bool copy_list(entry *made, const Py_buffer *steps, const Py_buffer *table, PyObject *constants) {
  uint8_t *memory = made->memory = list_copied(steps, table, constants, &made->list.constants);
  if (!memory) return false;
  made->list.steps = (avro_step *)(void *)memory;
  made->list.count = steps->len / (Py_ssize_t)sizeof(avro_step);
  made->list.table = (int64_t *)(void *)(memory + steps->len);
  made->list.table_count = table->len / (Py_ssize_t)sizeof(int64_t);
  made->list.constant_count = PyTuple_Size(constants);
  return true;
}

static bool is_busy(const AvroDecoder *self) {
  if (self->busy) PyErr_SetString(PyExc_RuntimeError, "a decoder is for one thread at a time");
  return self->busy;
}

static PyObject *decoder_add(AvroDecoder *self, PyObject *arguments) {
  long long id;
  Py_buffer steps, table;
  PyObject *constants;
  entry made = {0};
  if (!PyArg_ParseTuple(arguments, "Ly*y*O!", &id, &steps, &table, &PyTuple_Type, &constants)) return NULL;
  bool whole = steps.len % (Py_ssize_t)sizeof(avro_step) == 0 && table.len % (Py_ssize_t)sizeof(int64_t) == 0;
  if (!whole) PyErr_SetString(PyExc_ValueError, "steps that are cut off");
  bool copied = whole && !is_busy(self) && copy_list(&made, &steps, &table, constants);
  PyBuffer_Release(&steps);
  PyBuffer_Release(&table);
  made.list.id = id;
  if (copied && !avro_valid(&made.list, &self->into))
    PyErr_SetString(PyExc_ValueError, "steps that can't be run on these columns");
  else if (copied) {
    drop(self, id);
    if (put(self, &made)) Py_RETURN_NONE;
    PyErr_NoMemory();
  }
  free(made.memory);
  return NULL;
}

static PyObject *decoder_drop(AvroDecoder *self, PyObject *arguments) {
  long long id;
  if (!PyArg_ParseTuple(arguments, "L", &id) || is_busy(self)) return NULL;
  drop(self, id);
  Py_RETURN_NONE;
}

/* --- records ---------------------------------------------------------------------------------- */

/* The id of the writer's schema behind Confluent's magic byte; -1 where there is no such frame. */
static int64_t frame_id(const uint8_t *record, size_t size) {
  if (size < FRAME || record[0]) return -1;
  return (int64_t)((uint32_t)record[1] << 24 | (uint32_t)record[2] << 16 | (uint32_t)record[3] << 8 | record[4]);
}

/* Ids for which there are no steps, each once or a few times; how many. */
static size_t find_missing(const AvroDecoder *self, const records *from, int64_t *missing) {
  int64_t last = -1;
  size_t count = 0, size;
  for (int64_t row = 0; row < from->rows && count < MOST_MISSING; row++) {
    const uint8_t *record = row_bytes(from, row, &size);
    int64_t id = record ? frame_id(record, size) : -1;
    if (id < 0 || id == last) continue;
    last = id;
    if (!find(self, id)) missing[count++] = id;
  }
  return count;
}

static bool read_rows(AvroDecoder *self, const records *from, bad_rows *bad) {
  const avro_list *list = find(self, UNFRAMED);
  size_t size, frame = from->framed ? FRAME : 0;
  for (int64_t row = 0; row < from->rows; row++) {
    const uint8_t *record = row_bytes(from, row, &size);
    avro_error error = {AVRO_FRAME, 0, -1};
    int64_t id = UNFRAMED;
    if (record && from->framed && (id = frame_id(record, size)) >= 0 && (!list || list->id != id)) list = find(self, id);
    if (record && list && list->id == id && size >= frame) error = avro_read(list, &self->into, record, frame, size);
    if (error.reason == AVRO_NO_MEMORY) return false;
    if (record && !error.reason) continue;
    tree_cut(&self->into, row);
    const int64_t figures[MOST_FIGURES] = {row, error.reason, error.at, id, error.constant};
    if (!tree_null(&self->into, 0) || (record && !bad_note(bad, figures))) return false;
  }
  return true;
}

static PyObject *missing_list(const int64_t *missing, size_t count) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < count; i++) {
    PyObject *one = PyLong_FromLongLong(missing[i]);
    if (!one || PyList_Append(list, one) < 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static PyObject *decode(AvroDecoder *self, const records *from, PyObject *take) {
  bad_rows bad = {0};
  struct ArrowArray array = {0};
  int64_t missing[MOST_MISSING];
  size_t missing_count = 0;
  bool done = false, full = false;
  self->busy = 1;
  Py_BEGIN_ALLOW_THREADS
  if (from->framed) missing_count = find_missing(self, from, missing);
  if (!missing_count) {
    tree_allow(&self->into, records_size(from));
    done = read_rows(self, from, &bad) && tree_export(&self->into, &array);
    if (!done) {
      full = tree_full(&self->into);
      tree_clear(&self->into);
    }
  }
  Py_END_ALLOW_THREADS
  self->busy = 0;
  PyObject *answer = NULL;
  if (missing_count)
    answer = Py_BuildValue("OON", Py_None, Py_None, missing_list(missing, missing_count));
  else if (!done)
    records_failed(full);
  else {
    PyObject *what = records_taken(&array, take);
    answer = what ? Py_BuildValue("NNN", what, bad_list(&bad, 5), PyList_New(0)) : NULL;
  }
  free(bad.all);
  return answer;
}

static PyObject *decoder_decode(AvroDecoder *self, PyObject *arguments) {
  records from;
  PyObject *take, *answer = NULL;
  if (!records_given(&from, arguments, true, &take)) return NULL;
  if (!self->into.columns)
    PyErr_SetString(PyExc_RuntimeError, "a decoder that was not made");
  else if (!is_busy(self))
    answer = decode(self, &from, take);
  records_release(&from);
  return answer;
}

/* --- made and ended --------------------------------------------------------------------------- */

static int decoder_init(AvroDecoder *self, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"columns", "most", NULL};
  Py_buffer columns;
  int most = INT32_MAX;
  if (self->into.columns) return PyErr_SetString(PyExc_RuntimeError, "a decoder is made once"), -1;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y*|i", names, &columns, &most)) return -1;
  size_t size = (size_t)columns.len, each = sizeof(int32_t[2]);
  errno = 0;
  bool made = size && size % each == 0 && size / each <= INT32_MAX && most >= 0 &&
              tree_new(&self->into, (const int32_t(*)[2])columns.buf, (int32_t)(size / each), most);
  bool no_memory = errno == ENOMEM;
  PyBuffer_Release(&columns);
  if (made) return 0;
  tree_free(&self->into);
  if (no_memory)
    PyErr_NoMemory();
  else
    PyErr_SetString(PyExc_ValueError, "these are no columns");
  return -1;
}

static void decoder_dealloc(AvroDecoder *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  while (self->entry_count) free(self->entries[--self->entry_count].memory);
  free(self->entries);
  tree_free(&self->into);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF((PyObject *)type);
}

static PyMethodDef decoder_methods[] = {
    {"add", (PyCFunction)decoder_add, METH_VARARGS, NULL},
    {"drop", (PyCFunction)decoder_drop, METH_VARARGS, NULL},
    {"decode", (PyCFunction)decoder_decode, METH_VARARGS, NULL},
    {0},
};

static PyType_Slot decoder_slots[] = {
    {Py_tp_init, decoder_init}, {Py_tp_dealloc, decoder_dealloc}, {Py_tp_methods, decoder_methods}, {0, NULL}};

static PyType_Spec decoder_spec = {"sparkcohort.native._native.AvroDecoder", sizeof(AvroDecoder), 0, Py_TPFLAGS_DEFAULT,
                                   decoder_slots};

int add_avro_decoder(PyObject *module) {
  PyObject *type = PyType_FromSpec(&decoder_spec);
  int added = type ? PyModule_AddObjectRef(module, "AvroDecoder", type) : -1;
  Py_XDECREF(type);
  return added;
}
