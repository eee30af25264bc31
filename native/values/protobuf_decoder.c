/* A column of bytes from Python, and back to it a column of values and what was wrong with which record. */
#include "protobuf_decoder.h"

#include <errno.h>
#include <stdlib.h>

#include "protobuf.h"
#include "records.h"

typedef struct {
  PyObject_HEAD
  tree into; /* empty between calls */
  protobuf_list list;
  uint8_t *memory; /* of all that the list points to, but for the slots */
  int busy;        /* records are read, without the interpreter's lock */
} ProtobufDecoder;

/* --- the list of steps ------------------------------------------------------------------------ */

static bool copy_list(ProtobufDecoder *self, const Py_buffer *steps, const Py_buffer *table, PyObject *constants) {
  protobuf_list *made = &self->list;
  uint8_t *memory = self->memory = list_copied(steps, table, constants, &made->constants);
  if (!memory) return false;
  made->steps = (protobuf_step *)(void *)memory;
  made->count = steps->len / (Py_ssize_t)sizeof(protobuf_step);
  made->table = (int64_t *)(void *)(memory + steps->len);
  made->table_count = table->len / (Py_ssize_t)sizeof(int64_t);
  made->constant_count = PyTuple_Size(constants);
  made->slots = calloc((size_t)made->count + 1, sizeof *made->slots);
  if (!made->slots) PyErr_NoMemory();
  return made->slots;
}

/* --- records ---------------------------------------------------------------------------------- */

static bool read_rows(ProtobufDecoder *self, const records *from, bad_rows *bad) {
  for (int64_t row = 0; row < from->rows; row++) {
    size_t size;
    const uint8_t *record = row_bytes(from, row, &size);
    protobuf_error error = {0};
    if (record) error = protobuf_read(&self->list, &self->into, record, size, from->framed);
    if (error.reason == PB_NO_MEMORY) return false;
    if (record && !error.reason) continue;
    tree_cut(&self->into, row);
    const int64_t figures[MOST_FIGURES] = {row, error.reason, error.at, error.step};
    if (!tree_null(&self->into, 0) || (record && !bad_note(bad, figures))) return false;
  }
  return true;
}

static PyObject *decode(ProtobufDecoder *self, const records *from, PyObject *take) {
  bad_rows bad = {0};
  struct ArrowArray array = {0};
  bool done, full = false;
  self->busy = 1;
  Py_BEGIN_ALLOW_THREADS
  tree_allow(&self->into, records_size(from));
  done = read_rows(self, from, &bad) && tree_export(&self->into, &array);
  if (!done) {
    full = tree_full(&self->into);
    tree_clear(&self->into);
  }
  Py_END_ALLOW_THREADS
  self->busy = 0;
  PyObject *answer = NULL;
  if (!done)
    records_failed(full);
  else {
    PyObject *what = records_taken(&array, take);
    answer = what ? Py_BuildValue("NN", what, bad_list(&bad, 4)) : NULL;
  }
  free(bad.all);
  return answer;
}

static PyObject *decoder_decode(ProtobufDecoder *self, PyObject *arguments) {
  records from;
  PyObject *take, *answer = NULL;
  if (!records_given(&from, arguments, true, &take)) return NULL;
  if (!self->into.columns)
    PyErr_SetString(PyExc_RuntimeError, "a decoder that was not made");
  else if (self->busy)
    PyErr_SetString(PyExc_RuntimeError, "a decoder is for one thread at a time");
  else
    answer = decode(self, &from, take);
  records_release(&from);
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

static PyType_Spec decoder_spec = {"sparkcohort.native._native.ProtobufDecoder", sizeof(ProtobufDecoder), 0,
                                   Py_TPFLAGS_DEFAULT, decoder_slots};

int add_protobuf_decoder(PyObject *module) {
  PyObject *type = PyType_FromSpec(&decoder_spec);
  int added = type ? PyModule_AddObjectRef(module, "ProtobufDecoder", type) : -1;
  Py_XDECREF(type);
  return added;
}
