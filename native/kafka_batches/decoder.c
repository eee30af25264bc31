/* Fetch responses for Python: a Decoder has what parts share, a Part is one partition's share of one response. */
#include "decoder.h"

#include <stdlib.h>
#include <string.h>

#include "arrow/topics.h"
#include "batches.h"
#include "crc32c.h"
#include "events.h"

static PyTypeObject *part_type;

enum { IN_VAIN = 32 << 20 }; /* bytes unpacked without a row before somebody else gets a turn */

typedef struct {
  PyObject_HEAD
  PyObject *take, *unpack;
  long long largest;
  size_t window;  /* how much is unpacked at once, if no record needs more */
  uint8_t *spare; /* a window that no part has */
  topics topics;
  columns rows; /* empty between calls */
  int busy;     /* a part is being read, without the interpreter's lock */
} Decoder;

typedef struct {
  PyObject_HEAD
  Decoder *decoder;
  Py_buffer data, plain; /* the response, and the records of its batch that was decompressed last, if at one go ... */
  PyObject *stream;      /* ... else where they come from, piece by piece, into the window */
  uint8_t *window;
  size_t room, unpacked; /* the latter by this call */
  char why[WORDS]; /* a batch can't be decompressed; "" while it can */
  int64_t too_large; /* bytes that would have to be unpacked at one go */
  topic *of;
  int partition;
  batches left;
} Part;

/* --- the decoder ------------------------------------------------------------------------------ */

static int decoder_init(Decoder *self, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"fields", "take", "unpack", "largest", "window", NULL};
  PyObject *take, *unpack;
  const char *fields;
  long long largest;
  Py_ssize_t count, window;
  selection selected;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "y#OOLn", names, &fields, &count, &take, &unpack, &largest, &window))
    return -1;
  if (!selection_read(&selected, fields, (size_t)count)) {
    PyErr_SetString(PyExc_ValueError, "not fields of a record, each once");
    return -1;
  }
  if (largest < 0 || window < 1) {
    PyErr_SetString(PyExc_ValueError, "nothing fits");
    return -1;
  }
  if (self->take) {
    PyErr_SetString(PyExc_RuntimeError, "made twice");
    return -1;
  }
  self->take = Py_NewRef(take);
  self->unpack = Py_NewRef(unpack);
  self->largest = largest;
  self->window = (size_t)window;
  self->rows.selected = selected;
  return 0;
}

static int decoder_traverse(Decoder *self, visitproc visit, void *arg) {
  Py_VISIT(self->take);
  Py_VISIT(self->unpack);
  Py_VISIT(Py_TYPE((PyObject *)self));
  return 0;
}

static int decoder_clear(Decoder *self) {
  Py_CLEAR(self->take);
  Py_CLEAR(self->unpack);
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
  topics_free(&self->topics);
  columns_free(&self->rows);
  free(self->spare);
  free_object((PyObject *)self);
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
  part->of = topics_find(&self->topics, name);
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
  part->left.largest = self->largest;
  return (PyObject *)part;
}

/* Let go of what a batch was unpacked by; a window of the usual size is kept for the next part. */
static void drop_unpacked(Part *self) {
  if (self->plain.obj) PyBuffer_Release(&self->plain);
  Py_CLEAR(self->stream);
  if (self->room == self->decoder->window && !self->decoder->spare)
    self->decoder->spare = self->window;
  else
    free(self->window);
  self->window = NULL;
  self->room = 0;
}

static void part_dealloc(Part *self) {
  drop_unpacked(self);
  if (self->data.obj) PyBuffer_Release(&self->data);
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

static PyObject *part_begun(Part *self, PyObject *nothing) {
  (void)nothing;
  return Py_BuildValue("LL", (long long)self->left.begun_records, (long long)self->left.begun_bytes);
}

/* What Python raised of a batch's bytes, in words; anything else goes through. */
static int cannot_unpack(Part *self) {
  if (!PyErr_ExceptionMatches(PyExc_OSError) && !PyErr_ExceptionMatches(PyExc_ValueError)) return -1;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *words = value ? PyObject_Str(value) : NULL;
  const char *text = words ? PyUnicode_AsUTF8AndSize(words, NULL) : NULL;
  PyOS_snprintf(self->why, sizeof self->why, "a batch can't be decompressed: %.400s", text ? text : "?");
  PyErr_Clear();
  Py_XDECREF(words);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return 0;
}

static bool make_window(Part *self, size_t room) {
  if (room <= self->room) return true;
  if (room == self->decoder->window && self->decoder->spare) {
    self->window = self->decoder->spare;
    self->decoder->spare = NULL;
  } else {
    uint8_t *moved = realloc(self->window, room);
    if (!moved) return false;
    self->window = moved;
  }
  self->room = room;
  return true;
}

/* Let Python write the next piece behind what is left of the last one: 1, 0 if it can't be done, -1 with an exception. */
static int next_piece(Part *self) {
  const batch *now = &self->left.now;
  bool first = !self->window;
  size_t left = first ? 0 : (size_t)(now->end - now->record);
  size_t usual = self->decoder->window, room = now->wanted > usual ? now->wanted : usual;
  if (left) memmove(self->window, now->record, left);
  bool made = make_window(self, room);
  if (!first) batches_unpacked(&self->left, self->window, left, true); /* also where no piece follows */
  if (!made) {
    PyErr_NoMemory();
    return -1;
  }
  size_t asked = self->room - left;
  PyObject *view = PyMemoryView_FromMemory((char *)self->window + left, (Py_ssize_t)asked, PyBUF_WRITE);
  PyObject *got = view ? PyObject_CallMethod(self->stream, "readinto", "O", view) : NULL;
  Py_XDECREF(view);
  size_t size = got ? PyLong_AsSize_t(got) : 0;
  Py_XDECREF(got);
  if (PyErr_Occurred()) return cannot_unpack(self);
  if (size > asked) size = asked;
  batches_unpacked(&self->left, self->window, left + size, size == asked);
  self->unpacked += size;
  return 1;
}

/* Begin to unpack the records of the batch; as above. */
static int unpack(Part *self) {
  const batch *now = &self->left.now;
  drop_unpacked(self);
  PyObject *packed = PyMemoryView_FromMemory((char *)now->record, now->end - now->record, PyBUF_READ);
  PyObject *found = packed ? PyObject_CallFunction(self->decoder->unpack, "iOL", (int)now->by, packed, self->decoder->largest)
                           : NULL;
  Py_XDECREF(packed);
  if (!found) return cannot_unpack(self);
  if (PyLong_Check(found)) {
    self->too_large = PyLong_AsLongLong(found);
    Py_DECREF(found);
    return PyErr_Occurred() ? -1 : 0;
  }
  if (!PyObject_CheckBuffer(found)) {
    self->stream = found;
    return next_piece(self);
  }
  int gotten = PyObject_GetBuffer(found, &self->plain, PyBUF_SIMPLE) < 0 ? -1 : 1;
  Py_DECREF(found);
  if (gotten > 0) batches_unpacked(&self->left, self->plain.buf, (size_t)self->plain.len, false);
  return gotten;
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
    columns_clear(&decoder->rows); /* headers of a row that never ended would be the next one's */
    return event_of(self, RECORDS, 0, Py_NewRef(Py_None));
  }
  struct ArrowArray array = {0};
  bool named = decoder->rows.selected.has[FIELD_TOPIC];
  name_column *name = named ? topic_column(self->of, rows) : NULL;
  const offset_runs *runs = &decoder->rows.runs;
  PyObject *where = PyBytes_FromStringAndSize((const char *)runs->all, (Py_ssize_t)(runs->count * sizeof *runs->all));
  if (!where) return NULL;
  if ((named && !name) || !columns_export(&decoder->rows, self->partition, name, &array)) {
    Py_DECREF(where);
    return PyErr_NoMemory();
  }
  PyObject *what = PyObject_CallFunction(decoder->take, "KN", (unsigned long long)(uintptr_t)&array, where);
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
      return event_of(self, TOO_LARGE, fault->size, Py_NewRef(Py_None));
    case BATCHES_COMPRESSED:
    case BATCHES_HUNGRY:
      if (self->too_large) return event_of(self, TOO_LARGE, self->too_large, Py_NewRef(Py_None));
      if (!self->why[0]) return event_of(self, UNPACKING, 0, Py_NewRef(Py_None));
      return event_of(self, ERROR, KAFKA_BAD_COMPRESSION, PyUnicode_DecodeUTF8(self->why, (Py_ssize_t)strlen(self->why), "replace"));
    case BATCHES_FORMAT:
      return event_of(self, ERROR, KAFKA_NOT_IMPLEMENTED, PyUnicode_FromString("records of an older format"));
    case BATCHES_DAMAGED:
      return event_of(self, ERROR, KAFKA_BAD_MSG, PyUnicode_FromString(fault->why));
    default:
      return PyErr_NoMemory();
  }
}

/* Bring what the batch's reader asks for: 1, 0 if it won't come (in this call), -1 with an exception. */
static int feed(Part *self, batches_state state) {
  if (self->why[0] || self->too_large) return 0;
  if (!self->decoder->rows.rows && self->unpacked >= IN_VAIN) return 0;
  return state == BATCHES_COMPRESSED ? unpack(self) : next_piece(self);
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
  self->unpacked = 0;
  do {
    Py_BEGIN_ALLOW_THREADS
    state = batches_step(&self->left, rows, most, bytes, &fault);
    Py_END_ALLOW_THREADS
    if (state != BATCHES_COMPRESSED && state != BATCHES_HUNGRY) break;
    found = feed(self, state);
  } while (found > 0);
  PyObject *answer = NULL;
  bool moved = rows->rows || self->left.position > before;
  if (found >= 0 && moved && state != BATCHES_MEMORY)
    answer = records_event(self);
  else if (found >= 0)
    answer = fault_event(self, state, &fault);
  if (!answer || state == BATCHES_MEMORY) columns_free(rows);
  else if (!moved) columns_clear(rows); /* as above */
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
    {"begun", (PyCFunction)part_begun, METH_NOARGS, NULL},
    {"take", (PyCFunction)part_take, METH_VARARGS, NULL},
    {0},
};

static PyType_Slot decoder_slots[] = {
    {Py_tp_init, decoder_init},   {Py_tp_dealloc, decoder_dealloc},  {Py_tp_traverse, decoder_traverse},
    {Py_tp_clear, decoder_clear}, {Py_tp_methods, decoder_methods}, {0, NULL},
};

static PyType_Slot part_slots[] = {{Py_tp_dealloc, part_dealloc}, {Py_tp_methods, part_methods}, {0, NULL}};

static PyType_Spec decoder_spec = {"sparkcohort.native._native.Decoder", sizeof(Decoder), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, decoder_slots};

static PyType_Spec part_spec = {"sparkcohort.native._native.Part", sizeof(Part), 0,
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
