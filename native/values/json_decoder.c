/* A column of bytes from Python, and back to it a column of structs and what was wrong with which row; see _native.pyi. */
#include "json_decoder.h"

#include <errno.h>
#include <stdlib.h>

#include "json.h"
#include "records.h"

enum { MOST_POOL = 1 << 20 }; /* what a decoder keeps for the next records, after a giant one too */

typedef struct {
  PyObject_HEAD
  json_reader reader; /* its columns are empty between calls */
  int busy;           /* records are read, without the interpreter's lock */
} Decoder;

/* --- records ---------------------------------------------------------------------------------- */

static bool read_rows(json_reader *reader, const records *from, bad_rows *bad) {
  size_t size;
  for (int64_t row = 0; row < from->rows; row++) {
    const uint8_t *record = row_bytes(from, row, &size);
    if (!record) {
      if (!tree_null(&reader->into, 0)) return false;
      continue;
    }
    json_error error = json_read(reader, (const char *)record, size);
    const int64_t figures[MOST_FIGURES] = {row, error.reason, error.at};
    if (error.reason == JSON_NO_MEMORY || (error.reason && !bad_note(bad, figures))) return false;
  }
  return true;
}

static void forget_pool(json_reader *reader) {
  if (reader->pool_size <= MOST_POOL) return;
  free(reader->pool);
  reader->pool = NULL;
  reader->pool_size = 0;
}

static PyObject *decode(Decoder *self, const records *from, PyObject *take) {
  bad_rows bad = {0};
  struct ArrowArray array = {0};
  bool done, full = false;
  self->busy = 1;
  Py_BEGIN_ALLOW_THREADS
  tree_allow(&self->reader.into, records_size(from));
  done = read_rows(&self->reader, from, &bad) && tree_export(&self->reader.into, &array);
  if (!done) {
    full = tree_full(&self->reader.into);
    tree_clear(&self->reader.into);
  }
  forget_pool(&self->reader);
  Py_END_ALLOW_THREADS
  self->busy = 0;
  PyObject *answer = NULL;
  if (!done)
    records_failed(full);
  else {
    PyObject *what = records_taken(&array, take);
    answer = what ? Py_BuildValue("NN", what, bad_list(&bad, 3)) : NULL;
  }
  free(bad.all);
  return answer;
}

static PyObject *decoder_decode(Decoder *self, PyObject *arguments) {
  records from;
  PyObject *take, *answer = NULL;
  if (!records_given(&from, arguments, false, &take)) return NULL;
  if (!self->reader.into.columns)
    PyErr_SetString(PyExc_RuntimeError, "a decoder that was not made");
  else if (self->busy)
    PyErr_SetString(PyExc_RuntimeError, "a decoder is for one thread at a time");
  else
    answer = decode(self, &from, take);
  records_release(&from);
  return answer;
}

/* --- made and ended --------------------------------------------------------------------------- */

static bool make(json_reader *reader, const Py_buffer *fields, const Py_buffer *names, int most) {
  size_t each = sizeof(int32_t[4]), size = (size_t)fields->len;
  if (!size || size % each || size / each > INT32_MAX || most < 0) return false;
  const int32_t(*described)[4] = fields->buf;
  int32_t count = (int32_t)(size / each);
  return json_tree_new(&reader->into, described, count, most) &&
         json_plan_new(&reader->plan, described, count, names->buf, (size_t)names->len);
}

static bool take_zone(time_zone *zone, const Py_buffer *given) {
  size_t size = (size_t)given->len;
  if (size % sizeof *zone->offsets) return false;
  zone_offset *offsets = malloc(size + 1);
  if (!offsets) return false;
  if (size) memcpy(offsets, given->buf, size);
  *zone = (time_zone){offsets, size / sizeof *offsets};
  return true;
}

static int decoder_init(Decoder *self, PyObject *arguments, PyObject *keywords) {
  static char *words[] = {"fields", "names", "most", "zone", NULL};
  Py_buffer fields, names, zone = {0};
  int most = INT32_MAX;
  if (self->reader.into.columns) return PyErr_SetString(PyExc_RuntimeError, "a decoder is made once"), -1;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y*y*|iy*", words, &fields, &names, &most, &zone)) return -1;
  errno = 0;
  bool made = make(&self->reader, &fields, &names, most) && take_zone(&self->reader.zone, &zone);
  bool no_memory = errno == ENOMEM;
  self->reader.as_text = self->reader.plan.has_decimals;
  PyBuffer_Release(&fields);
  PyBuffer_Release(&names);
  PyBuffer_Release(&zone);
  if (made) return 0;
  json_reader_free(&self->reader);
  if (no_memory)
    PyErr_NoMemory();
  else
    PyErr_SetString(PyExc_ValueError, "these are no fields of a struct, or no offsets of a zone");
  return -1;
}

static void decoder_dealloc(Decoder *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  json_reader_free(&self->reader);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF((PyObject *)type);
}

static PyMethodDef decoder_methods[] = {{"decode", (PyCFunction)decoder_decode, METH_VARARGS, NULL}, {0}};

static PyType_Slot decoder_slots[] = {
    {Py_tp_init, decoder_init}, {Py_tp_dealloc, decoder_dealloc}, {Py_tp_methods, decoder_methods}, {0, NULL}};

static PyType_Spec decoder_spec = {"sparkcohort.native._native.JsonDecoder", sizeof(Decoder), 0, Py_TPFLAGS_DEFAULT,
                                   decoder_slots};

int add_json_decoder(PyObject *module) {
  PyObject *type = PyType_FromSpec(&decoder_spec);
  int added = type ? PyModule_AddObjectRef(module, "JsonDecoder", type) : -1;
  Py_XDECREF(type);
  return added;
}
