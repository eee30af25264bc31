/* Fetch responses for Python: a Decoder has what parts share, a Part is one partition's share of one response. */
#include "decoder.h"

#include <stdlib.h>

#include "batches.h"
#include "crc32c.h"
#include "drain.h"

static PyTypeObject *part_type;

typedef struct {
  PyObject_HEAD
  PyObject *take, *decompress;
  spans topics; /* by name alone */
  columns rows; /* empty between calls */
  int busy;     /* a part is being read, without the interpreter's lock */
} Decoder;

typedef struct {
  PyObject_HEAD
  Decoder *decoder;
  Py_buffer data, plain; /* the response, and the records of its batch that was decompressed last */
  topic *of;
  int partition;
  batches left;
} Part;

/* --- the decoder ------------------------------------------------------------------------------ */

static int decoder_init(Decoder *self, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"include_headers", "take", "decompress", NULL};
  PyObject *take, *decompress;
  int with_headers;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "pOO", names, &with_headers, &take, &decompress)) return -1;
  if (self->take) {
    PyErr_SetString(PyExc_RuntimeError, "made twice");
    return -1;
  }
  self->take = Py_NewRef(take);
  self->decompress = Py_NewRef(decompress);
  self->rows.with_headers = with_headers;
  return 0;
}

static int decoder_traverse(Decoder *self, visitproc visit, void *arg) {
  Py_VISIT(self->take);
  Py_VISIT(self->decompress);
  Py_VISIT(Py_TYPE((PyObject *)self));
  return 0;
}

static int decoder_clear(Decoder *self) {
  Py_CLEAR(self->take);
  Py_CLEAR(self->decompress);
  return 0;
}

static void free_object(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF((PyObject *)type);
}

static void decoder_dealloc(Decoder *self) {
  PyObject_GC_UnTrack((PyObject *)self);
  decoder_clear(self);
  spans_free(&self->topics);
  columns_free(&self->rows);
  free_object((PyObject *)self);
}

static topic *find_topic(Decoder *self, const char *name) {
  span *found = spans_find(&self->topics, name, 0);
  if (found) return found->topic;
  if (!spans_reserve(&self->topics, 1) || !spans_put(&self->topics, name, 0, 0)) return NULL;
  return spans_find(&self->topics, name, 0)->topic;
}

/* --- a part ----------------------------------------------------------------------------------- */

static int by_first(const void *one, const void *other) {
  int64_t a = ((const aborted *)one)->first, b = ((const aborted *)other)->first;
  return a < b ? -1 : a > b;
}

/* Brokers list them in the order in which they ended. */
static int read_aborted(PyObject *said, batches *into) {
  Py_ssize_t count = said == Py_None ? 0 : PySequence_Size(said);
  if (count <= 0) return count == 0;
  into->transactions = calloc((size_t)count, sizeof *into->transactions);
  if (!into->transactions) return PyErr_NoMemory() != NULL;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *pair = PySequence_GetItem(said, i);
    long long producer, first;
    int read = pair && PyArg_ParseTuple(pair, "LL", &producer, &first);
    Py_XDECREF(pair);
    if (!read) return 0;
    into->transactions[i] = (aborted){producer, first};
  }
  into->count = (size_t)count;
  qsort(into->transactions, into->count, sizeof *into->transactions, by_first);
  return 1;
}

static PyObject *decoder_part(Decoder *self, PyObject *arguments) {
  PyObject *data, *transactions;
  Py_ssize_t from, to;
  const char *name;
  int partition;
  long long position, stop, high_watermark;
  if (!PyArg_ParseTuple(arguments, "OnnsiLLLO", &data, &from, &to, &name, &partition, &position, &stop, &high_watermark,
                        &transactions))
    return NULL;
  allocfunc allocate = (allocfunc)PyType_GetSlot(part_type, Py_tp_alloc);
  Part *part = (Part *)allocate(part_type, 0);
  if (!part) return NULL;
  part->decoder = (Decoder *)Py_NewRef((PyObject *)self);
  part->of = find_topic(self, name);
  part->partition = partition;
  if (!part->of) PyErr_NoMemory();
  if (!part->of || PyObject_GetBuffer(data, &part->data, PyBUF_SIMPLE) < 0 || !read_aborted(transactions, &part->left)) {
    Py_DECREF((PyObject *)part);
    return NULL;
  }
  if (from < 0 || to < from || to > part->data.len) {
    Py_DECREF((PyObject *)part);
    PyErr_SetString(PyExc_ValueError, "a part lies outside its response");
    return NULL;
  }
  part->left.at = (const uint8_t *)part->data.buf + from;
  part->left.end = (const uint8_t *)part->data.buf + to;
  part->left.position = position;
  part->left.stop = stop;
  part->left.high_watermark = high_watermark;
  return (PyObject *)part;
}

static void part_dealloc(Part *self) {
  if (self->data.obj) PyBuffer_Release(&self->data);
  if (self->plain.obj) PyBuffer_Release(&self->plain);
  free(self->left.transactions);
  Py_XDECREF((PyObject *)self->decoder);
  free_object((PyObject *)self);
}

static PyObject *part_ahead(Part *self, PyObject *nothing) {
  (void)nothing;
  int32_t epoch;
  int64_t ahead = batches_ahead(&self->left, &epoch);
  return Py_BuildValue("Li", (long long)ahead, (int)epoch);
}

/* Let Python decompress the records of the batch: 1, 0 if it can't be done, -1 with an exception. */
static int decompress(Part *self) {
  const batch *now = &self->left.now;
  if (self->plain.obj) PyBuffer_Release(&self->plain);
  PyObject *packed = PyMemoryView_FromMemory((char *)now->record, now->end - now->record, PyBUF_READ);
  PyObject *plain = packed ? PyObject_CallFunction(self->decoder->decompress, "iO", (int)now->by, packed) : NULL;
  Py_XDECREF(packed);
  int found = !plain ? -1 : plain == Py_None ? 0 : PyObject_GetBuffer(plain, &self->plain, PyBUF_SIMPLE) < 0 ? -1 : 1;
  Py_XDECREF(plain);
  if (found > 0) batches_decompressed(&self->left, self->plain.buf, (size_t)self->plain.len);
  return found;
}

static PyObject *event_of(Part *self, event_kind kind, int64_t number, PyObject *what) {
  return what ? Py_BuildValue("isiLLN", (int)kind, self->of->name, self->partition, (long long)self->left.position,
                              (long long)number, what)
              : NULL;
}

static PyObject *records_event(Part *self) {
  Decoder *decoder = self->decoder;
  int64_t rows = decoder->rows.rows, nbytes = rows ? columns_bytes(&decoder->rows) : 0;
  if (!rows) {
    columns_free(&decoder->rows); /* headers of a row that never ended would be the next one's */
    return event_of(self, RECORDS, 0, Py_NewRef(Py_None));
  }
  struct ArrowArray array = {0};
  name_column *name = topic_column(self->of, rows);
  if (!name || !columns_export(&decoder->rows, self->partition, name, &array)) return PyErr_NoMemory();
  PyObject *what = PyObject_CallFunction(decoder->take, "K", (unsigned long long)(uintptr_t)&array);
  if (array.release) array.release(&array);
  return event_of(self, RECORDS, nbytes, what);
}

static PyObject *fault_event(Part *self, batches_state state, const batches_fault *fault) {
  switch (state) {
    case BATCHES_DONE:
      Py_RETURN_NONE;
    case BATCHES_TIMESTAMP:
      return event_of(self, BAD_TIMESTAMP, fault->milliseconds, Py_NewRef(Py_None));
    case BATCHES_HEADER:
      return event_of(self, BAD_HEADER, 0, Py_NewRef(Py_None));
    case BATCHES_TOO_LARGE:
      return event_of(self, ERROR, KAFKA_TOO_LARGE, PyUnicode_FromString("a record is larger than Arrow's columns"));
    case BATCHES_COMPRESSED:
      return event_of(self, ERROR, KAFKA_BAD_COMPRESSION, PyUnicode_FromString("a batch can't be decompressed"));
    case BATCHES_FORMAT:
      return event_of(self, ERROR, KAFKA_NOT_IMPLEMENTED, PyUnicode_FromString("records of an older format"));
    case BATCHES_DAMAGED:
      return event_of(self, ERROR, KAFKA_BAD_MSG, PyUnicode_FromString(fault->why));
    default:
      return PyErr_NoMemory();
  }
}

static PyObject *part_take(Part *self, PyObject *arguments) {
  long long most, bytes;
  if (!PyArg_ParseTuple(arguments, "LL", &most, &bytes)) return NULL;
  if (self->decoder->busy) {
    PyErr_SetString(PyExc_RuntimeError, "a decoder is for one thread at a time");
    return NULL;
  }
  self->decoder->busy = 1;
  int64_t before = self->left.position;
  columns *rows = &self->decoder->rows;
  batches_fault fault = {0};
  batches_state state;
  int found = 1;
  do {
    Py_BEGIN_ALLOW_THREADS
    state = batches_step(&self->left, rows, most, bytes, &fault);
    Py_END_ALLOW_THREADS
    if (state == BATCHES_COMPRESSED) found = decompress(self);
  } while (state == BATCHES_COMPRESSED && found > 0);
  PyObject *answer = NULL;
  bool moved = rows->rows || self->left.position > before;
  if (found >= 0 && moved && state != BATCHES_MEMORY)
    answer = records_event(self);
  else if (found >= 0)
    answer = fault_event(self, state, &fault);
  if (!answer || !moved) columns_free(rows); /* as above */
  self->decoder->busy = 0;
  return answer;
}

/* --- the module's share ----------------------------------------------------------------------- */

static PyObject *checksum(PyObject *module, PyObject *arguments) {
  (void)module;
  Py_buffer data;
  int by_tables;
  if (!PyArg_ParseTuple(arguments, "y*p", &data, &by_tables)) return NULL;
  uint32_t sum = by_tables ? crc32c_by_tables(data.buf, (size_t)data.len) : crc32c(data.buf, (size_t)data.len);
  PyBuffer_Release(&data);
  return PyLong_FromUnsignedLong(sum);
}

static PyMethodDef decoder_methods[] = {{"part", (PyCFunction)decoder_part, METH_VARARGS, NULL}, {0}};

static PyMethodDef part_methods[] = {
    {"ahead", (PyCFunction)part_ahead, METH_NOARGS, NULL},
    {"take", (PyCFunction)part_take, METH_VARARGS, NULL},
    {0},
};

static PyType_Slot decoder_slots[] = {
    {Py_tp_init, decoder_init},   {Py_tp_dealloc, decoder_dealloc},  {Py_tp_traverse, decoder_traverse},
    {Py_tp_clear, decoder_clear}, {Py_tp_methods, decoder_methods}, {0, NULL},
};

static PyType_Slot part_slots[] = {{Py_tp_dealloc, part_dealloc}, {Py_tp_methods, part_methods}, {0, NULL}};

static PyType_Spec decoder_spec = {"sparkcohort.native._drain.Decoder", sizeof(Decoder), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, decoder_slots};

static PyType_Spec part_spec = {"sparkcohort.native._drain.Part", sizeof(Part), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, part_slots};

static PyMethodDef functions[] = {{"crc32c", checksum, METH_VARARGS, NULL}, {0}};

int add_decoder(PyObject *module) {
  PyObject *decoder = PyType_FromSpec(&decoder_spec);
  part_type = decoder ? (PyTypeObject *)PyType_FromSpec(&part_spec) : NULL;
  int failed = !part_type || PyModule_AddObjectRef(module, "Decoder", decoder) < 0 ||
               PyModule_AddObjectRef(module, "Part", (PyObject *)part_type) < 0 ||
               PyModule_AddFunctions(module, functions) < 0;
  Py_XDECREF(decoder);
  return failed ? -1 : 0;
}
