/* A column of bytes from Python, and back to it a column of values and what was wrong with which record. */
#include "protobuf_decoder.h"

#include <errno.h>
#include <stdlib.h>

#include "protobuf.h"

typedef struct {
  int64_t row;
  protobuf_error error;
} bad_row;

typedef struct {
  PyObject_HEAD
  tree into; /* empty between calls */
  protobuf_list list;
  uint8_t *memory; /* of all that the list points to, but for the slots */
  int busy;        /* records are read, without the interpreter's lock */
} ProtobufDecoder;

/* A column as Arrow has it. */
typedef struct {
  Py_buffer validity, offsets, data;
  int64_t first, rows;
  int framed;
} input;

typedef struct {
  bad_row *all;
  size_t count, room;
} bad_rows;

/* --- the list of steps ------------------------------------------------------------------------ */

static size_t constants_size(PyObject *constants, Py_ssize_t count) {
  size_t size = (size_t)count * sizeof(protobuf_constant);
  for (Py_ssize_t i = 0; i < count; i++) {
    Py_ssize_t length = PyBytes_Size(PyTuple_GetItem(constants, i));
    if (length < 0) return SIZE_MAX;
    size += (size_t)length;
  }
  return size;
}

/* Steps, table and constants in one piece of memory. */
static bool copy_list(ProtobufDecoder *self, const Py_buffer *steps, const Py_buffer *table, PyObject *constants) {
  Py_ssize_t count = PyTuple_Size(constants);
  size_t size = constants_size(constants, count);
  protobuf_list *made = &self->list;
  if (size == SIZE_MAX) return false;
  made->count = steps->len / (Py_ssize_t)sizeof(protobuf_step);
  made->table_count = table->len / (Py_ssize_t)sizeof(int64_t);
  made->constant_count = count;
  made->slots = calloc((size_t)made->count + 1, sizeof *made->slots);
  uint8_t *to = self->memory = malloc((size_t)steps->len + (size_t)table->len + size + 1);
  if (!to || !made->slots) return PyErr_NoMemory(), false;
  made->steps = (protobuf_step *)(void *)to;
  memcpy(to, steps->buf, (size_t)steps->len);
  to += steps->len;
  made->table = (int64_t *)(void *)to;
  memcpy(to, table->buf, (size_t)table->len);
  to += table->len;
  protobuf_constant *all = (protobuf_constant *)(void *)to;
  made->constants = all;
  to += (size_t)count * sizeof *all;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *each = PyTuple_GetItem(constants, i);
    all[i] = (protobuf_constant){to, (size_t)PyBytes_Size(each)};
    memcpy(to, PyBytes_AsString(each), all[i].size);
    to += all[i].size;
  }
  return true;
}

/* --- records ---------------------------------------------------------------------------------- */

/* Where a row's bytes are; NULL where it is null. */
static const uint8_t *row_bytes(const input *from, int64_t row, size_t *size) {
  int64_t at = from->first + row;
  const uint8_t *bits = from->validity.buf;
  const int32_t *offsets = from->offsets.buf;
  if (bits && !(bits[at / 8] >> (at % 8) & 1)) return NULL;
  int32_t start = offsets[at], end = offsets[at + 1];
  *size = start >= 0 && start <= end && end <= from->data.len ? (size_t)(end - start) : 0;
  static const uint8_t nothing;
  return *size ? (const uint8_t *)from->data.buf + start : &nothing;
}

static bool note(bad_rows *bad, int64_t row, protobuf_error error) {
  if (bad->count == bad->room) {
    size_t room = bad->room ? 2 * bad->room : 16;
    bad_row *all = realloc(bad->all, room * sizeof *all);
    if (!all) return false;
    bad->all = all;
    bad->room = room;
  }
  bad->all[bad->count++] = (bad_row){row, error};
  return true;
}

static bool read_rows(ProtobufDecoder *self, const input *from, bad_rows *bad) {
  for (int64_t row = 0; row < from->rows; row++) {
    size_t size;
    const uint8_t *record = row_bytes(from, row, &size);
    protobuf_error error = {0};
    if (record) error = protobuf_read(&self->list, &self->into, record, size, from->framed);
    if (error.reason == PB_NO_MEMORY) return false;
    if (record && !error.reason) continue;
    tree_cut(&self->into, row);
    if (!tree_null(&self->into, 0) || (record && !note(bad, row, error))) return false;
  }
  return true;
}

static PyObject *bad_list(const bad_rows *bad) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < bad->count; i++) {
    const protobuf_error *error = &bad->all[i].error;
    PyObject *one = Py_BuildValue("LiLL", (long long)bad->all[i].row, (int)error->reason, (long long)error->at,
                                  (long long)error->step);
    if (!one || PyList_Append(list, one) < 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static PyObject *decode(ProtobufDecoder *self, const input *from, PyObject *take) {
  bad_rows bad = {0};
  struct ArrowArray array = {0};
  bool done, full = false;
  self->busy = 1;
  Py_BEGIN_ALLOW_THREADS
  done = read_rows(self, from, &bad) && tree_export(&self->into, &array);
  if (!done) {
    full = tree_full(&self->into);
    tree_clear(&self->into);
  }
  Py_END_ALLOW_THREADS
  self->busy = 0;
  PyObject *answer = NULL;
  if (full)
    PyErr_SetString(PyExc_OverflowError, "a column of these rows has more bytes or items than its offsets can tell");
  else if (!done)
    PyErr_NoMemory();
  else {
    PyObject *what = PyObject_CallFunction(take, "K", (unsigned long long)(uintptr_t)&array);
    if (array.release) array.release(&array);
    answer = what ? Py_BuildValue("NN", what, bad_list(&bad)) : NULL;
  }
  free(bad.all);
  return answer;
}

static bool is_whole(const input *from) {
  if (from->first < 0 || from->rows < 0 || from->first > INT32_MAX || from->rows > INT32_MAX) return false;
  int64_t behind = from->first + from->rows;
  if (from->rows && from->offsets.len / (Py_ssize_t)sizeof(int32_t) < behind + 1) return false;
  return !from->validity.buf || from->validity.len >= (behind + 7) / 8;
}

static PyObject *decoder_decode(ProtobufDecoder *self, PyObject *arguments) {
  input from = {0};
  long long first, rows;
  PyObject *take, *answer = NULL;
  if (!PyArg_ParseTuple(arguments, "z*z*z*LLpO", &from.validity, &from.offsets, &from.data, &first, &rows, &from.framed,
                        &take))
    return NULL;
  from.first = first;
  from.rows = rows;
  if (!is_whole(&from))
    PyErr_SetString(PyExc_ValueError, "buffers that are shorter than their column");
  else if (!self->into.columns)
    PyErr_SetString(PyExc_RuntimeError, "a decoder that was not made");
  else if (self->busy)
    PyErr_SetString(PyExc_RuntimeError, "a decoder is for one thread at a time");
  else
    answer = decode(self, &from, take);
  PyBuffer_Release(&from.validity);
  PyBuffer_Release(&from.offsets);
  PyBuffer_Release(&from.data);
  return answer;
}

/* --- made and ended --------------------------------------------------------------------------- */

static void forget(ProtobufDecoder *self) {
  tree_free(&self->into);
  free(self->memory);
  free(self->list.slots);
  self->memory = NULL;
  self->list = (protobuf_list){0};
}

static void make(ProtobufDecoder *self, const Py_buffer *columns, const Py_buffer *steps, const Py_buffer *table,
                 PyObject *constants, int most) {
  size_t size = (size_t)columns->len, each = sizeof(int32_t[2]);
  bool whole = steps->len % (Py_ssize_t)sizeof(protobuf_step) == 0 && table->len % (Py_ssize_t)sizeof(int64_t) == 0;
  errno = 0;
  if (!whole || !size || size % each || size / each > INT32_MAX || most < 0)
    PyErr_SetString(PyExc_ValueError, "these are no columns, or steps that are cut off");
  else if (!tree_new(&self->into, (const int32_t(*)[2])columns->buf, (int32_t)(size / each), most)) {
    if (errno == ENOMEM)
      PyErr_NoMemory();
    else
      PyErr_SetString(PyExc_ValueError, "these are no columns");
  } else if (copy_list(self, steps, table, constants) && !protobuf_valid(&self->list, &self->into))
    PyErr_SetString(PyExc_ValueError, "steps that can't be run on these columns");
}

static int decoder_init(ProtobufDecoder *self, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"columns", "steps", "table", "constants", "most", NULL};
  Py_buffer columns, steps, table;
  PyObject *constants;
  int most = INT32_MAX;
  if (self->into.columns) return PyErr_SetString(PyExc_RuntimeError, "a decoder is made once"), -1;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y*y*y*O!|i", names, &columns, &steps, &table, &PyTuple_Type,
                                   &constants, &most))
    return -1;
  make(self, &columns, &steps, &table, constants, most);
  PyBuffer_Release(&columns);
  PyBuffer_Release(&steps);
  PyBuffer_Release(&table);
  if (!PyErr_Occurred()) return 0;
  forget(self);
  return -1;
}

static void decoder_dealloc(ProtobufDecoder *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  forget(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF((PyObject *)type);
}

static PyMethodDef decoder_methods[] = {{"decode", (PyCFunction)decoder_decode, METH_VARARGS, NULL}, {0}};

static PyType_Slot decoder_slots[] = {
    {Py_tp_init, decoder_init}, {Py_tp_dealloc, decoder_dealloc}, {Py_tp_methods, decoder_methods}, {0, NULL}};

static PyType_Spec decoder_spec = {"sparkcohort.native._drain.ProtobufDecoder", sizeof(ProtobufDecoder), 0,
                                   Py_TPFLAGS_DEFAULT, decoder_slots};

int add_protobuf_decoder(PyObject *module) {
  PyObject *type = PyType_FromSpec(&decoder_spec);
  int added = type ? PyModule_AddObjectRef(module, "ProtobufDecoder", type) : -1;
  Py_XDECREF(type);
  return added;
}
