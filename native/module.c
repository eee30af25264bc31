/* The Python module: see _native.pyi for what each thing is.  This file, those named decoder and values/records.c know Python, by its stable ABI.
 *
 * The rooms, in the order of the data:
 *
 *   librdkafka/     librdkafka fetches: kafka (its functions, found at run time) -> client (made, assigned, ended)
 *                   -> drain (its queue, cut into events) -> record (one message into the columns)
 *                   -> spent (a message goes back to the thread that made it)
 *   kafka_batches/  our own Fetch client brings bytes: decoder (one partition's share of a response, for Python)
 *                   -> batches (Kafka's record batches, record by record, into the columns), with crc32c
 *   arrow/          what both fill: columns (growing) -> export (into Arrow's C data interface, arrow.h) in blocks of
 *                   memory; spans (topics and partitions, with the column of each topic's name) and utf8, which both use
 *   values/         what is inside of records: tree (growing columns of any shape) -> tree_export (into Arrow), avro
 *                   (runs a list of steps; avro_valid looks at it first; avro_wire: how values are written), avro_decoder
 *                   (a column of bytes, for Python); protobuf in the same way
 *   json/           JSON's records: plan (what is read), json (reads it; yyjson parses, see yyjson.txt), text (dates, times,
 *                   decimals), json_decoder (a column of bytes, for Python)
 *
 * events.h has what both readers of records answer with.  Neither reader includes the other; arrow/ includes neither. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "json/json_decoder.h"
#include "kafka_batches/decoder.h"
#include "librdkafka/drain.h"
#include "values/avro_decoder.h"
#include "values/protobuf_decoder.h"

static PyObject *native_error;

enum { MOST_EXTENSIONS = 32 }; /* of a token */
enum { ABANDON_MS = 1000 }; /* what a client may hold up that nobody has closed */

typedef struct {
  PyObject_HEAD
  drain *drain;
  PyObject *take;
  int busy; /* a call is on its way, without the interpreter's lock */
} Client;

/* librdkafka's words may quote what it was given, cut anywhere. */
static PyObject *as_text(const char *text) { return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"); }

static PyObject *raise_failure(const failure *why) {
  PyObject *arguments = Py_BuildValue("iN", why->code, as_text(why->words));
  if (arguments) PyErr_SetObject(native_error, arguments);
  Py_XDECREF(arguments);
  return NULL;
}

/* Every call begins here and ends with leave(). */
static int enter(Client *self) {
  if (!self->drain)
    PyErr_SetString(PyExc_RuntimeError, "the source is closed");
  else if (drain_is_foreign(self->drain))
    PyErr_SetString(PyExc_RuntimeError, "the source is that of the process which forked this one");
  else if (self->busy)
    PyErr_SetString(PyExc_RuntimeError, "a source is for one thread at a time");
  else
    return self->busy = 1;
  return 0;
}

static void leave(Client *self) { self->busy = 0; }

/* --- made and ended --------------------------------------------------------------------------- */

static int read_settings(PyObject *pairs, const char *(*settings)[2]) {
  Py_ssize_t count = PySequence_Size(pairs);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *pair = PySequence_GetItem(pairs, i);
    int read = pair && PyArg_ParseTuple(pair, "ss", &settings[i][0], &settings[i][1]);
    Py_XDECREF(pair); /* the caller's sequence keeps it, and its strings */
    if (!read) return 0;
  }
  return 1;
}

static int client_init(Client *self, PyObject *arguments, PyObject *keywords) {
  static char *names[] = {"conf", "fields", "take", NULL};
  PyObject *pairs, *take;
  const char *fields;
  Py_ssize_t count;
  selection selected;
  if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Oy#O", names, &pairs, &fields, &count, &take)) return -1;
  if (!selection_read(&selected, fields, (size_t)count)) {
    PyErr_SetString(PyExc_ValueError, "not fields of a record, each once");
    return -1;
  }
  if (!kafka.new || self->drain) {
    PyErr_SetString(PyExc_RuntimeError, self->drain ? "made twice" : "load() comes first");
    return -1;
  }
  count = PySequence_Size(pairs);
  if (count < 0) return -1;
  const char *(*settings)[2] = calloc((size_t)count + 1, sizeof *settings);
  if (!settings) {
    PyErr_NoMemory();
    return -1;
  }
  if (read_settings(pairs, settings)) {
    failure why = {0};
    Py_BEGIN_ALLOW_THREADS
    self->drain = drain_new((const char *const(*)[2])settings, (size_t)count, &selected, &why);
    Py_END_ALLOW_THREADS
    if (self->drain) {
      Py_INCREF(take);
      self->take = take;
    } else
      raise_failure(&why);
  }
  free(settings);
  return self->drain ? 0 : -1;
}

static bool end(Client *self, int timeout_ms) {
  drain *ended = self->drain;
  bool in_time = true;
  self->drain = NULL;
  if (!ended) return true;
  Py_BEGIN_ALLOW_THREADS
  in_time = drain_end(ended, timeout_ms);
  Py_END_ALLOW_THREADS
  return in_time;
}

static PyObject *client_close(Client *self, PyObject *arguments) {
  int timeout_ms;
  if (!PyArg_ParseTuple(arguments, "i", &timeout_ms)) return NULL;
  if (self->drain && drain_is_foreign(self->drain)) self->drain = NULL;
  if (!self->drain) Py_RETURN_TRUE;
  if (!enter(self)) return NULL;
  bool in_time = end(self, timeout_ms);
  leave(self);
  return PyBool_FromLong(in_time);
}

static int client_traverse(Client *self, visitproc visit, void *arg) {
  Py_VISIT(self->take);
  Py_VISIT(Py_TYPE((PyObject *)self));
  return 0;
}

static int client_clear(Client *self) {
  Py_CLEAR(self->take);
  return 0;
}

static void client_dealloc(Client *self) {
  PyTypeObject *type = Py_TYPE((PyObject *)self);
  PyObject_GC_UnTrack((PyObject *)self);
  client_clear(self);
  end(self, ABANDON_MS);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF((PyObject *)type);
}

/* --- assigned --------------------------------------------------------------------------------- */

typedef struct {
  const char *name;
  int partition;
  long long start, end;
} asked;

/* Read a sequence of tuples by `format`; NULL with an exception. */
static asked *read_spans(PyObject *said, const char *format, Py_ssize_t *count) {
  *count = PySequence_Size(said);
  asked *all = *count < 0 ? NULL : calloc((size_t)*count + 1, sizeof *all);
  if (!all) return *count < 0 ? NULL : (asked *)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < *count; i++) {
    PyObject *item = PySequence_GetItem(said, i);
    int read = item && PyArg_ParseTuple(item, format, &all[i].name, &all[i].partition, &all[i].start, &all[i].end);
    Py_XDECREF(item);
    if (!read) {
      free(all);
      return NULL;
    }
  }
  return all;
}

static rd_kafka_topic_partition_list_t *as_list(const asked *all, Py_ssize_t count, int with_offsets) {
  rd_kafka_topic_partition_list_t *list = kafka.topic_partition_list_new((int)count);
  for (Py_ssize_t i = 0; i < count; i++) {
    kafka.topic_partition_list_add(list, all[i].name, all[i].partition);
    if (with_offsets) kafka.topic_partition_list_set_offset(list, all[i].name, all[i].partition, all[i].start);
  }
  return list;
}

static PyObject *client_assign(Client *self, PyObject *said) {
  Py_ssize_t count;
  asked *all = read_spans(said, "siLL", &count);
  if (!all || !enter(self)) {
    free(all);
    return NULL;
  }
  failure why = {0};
  rd_kafka_topic_partition_list_t *list = as_list(all, count, 1);
  bool assigned, kept;
  Py_BEGIN_ALLOW_THREADS
  assigned = drain_assign(self->drain, list, &why);
  Py_END_ALLOW_THREADS
  kafka.topic_partition_list_destroy(list);
  kept = assigned && spans_reserve(&self->drain->assigned, (size_t)count);
  for (Py_ssize_t i = 0; kept && i < count; i++)
    kept = spans_put(&self->drain->assigned, all[i].name, all[i].partition, all[i].end);
  free(all);
  leave(self);
  if (!assigned) return raise_failure(&why);
  if (!kept) return PyErr_NoMemory();
  Py_RETURN_NONE;
}

static PyObject *client_unassign(Client *self, PyObject *said) {
  Py_ssize_t count;
  asked *all = read_spans(said, "si", &count);
  if (!all || !enter(self)) {
    free(all);
    return NULL;
  }
  failure why = {0};
  rd_kafka_topic_partition_list_t *list = as_list(all, count, 0);
  bool done;
  Py_BEGIN_ALLOW_THREADS
  done = drain_unassign(self->drain, list, &why);
  Py_END_ALLOW_THREADS
  kafka.topic_partition_list_destroy(list);
  for (Py_ssize_t i = 0; i < count; i++) spans_remove(&self->drain->assigned, all[i].name, all[i].partition);
  drain_forget(self->drain, false);
  free(all);
  leave(self);
  return done ? Py_NewRef(Py_None) : raise_failure(&why);
}

/* --- drained ---------------------------------------------------------------------------------- */

/* What the event holds: librdkafka's words, or what `take` makes of the run's rows. */
static PyObject *contents(PyObject *take, event *from) {
  if (from->words) return as_text(from->words);
  if (!from->array.release) return Py_NewRef(Py_None);
  const char *runs = (const char *)from->runs.all;
  return PyObject_CallFunction(take, "Ky#", (unsigned long long)(uintptr_t)&from->array, runs,
                               (Py_ssize_t)(from->runs.count * sizeof *from->runs.all));
}

static PyObject *events_list(Client *self) {
  drain *all = self->drain;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < all->count; i++) {
    event *from = &all->events[i];
    const char *name = from->of ? from->of->name : "";
    PyObject *what = contents(self->take, from);
    PyObject *one = what ? Py_BuildValue("isiLLN", (int)from->kind, name, (int)from->partition, (long long)from->offset,
                                         (long long)from->number, what)
                         : NULL;
    if (!one || PyList_Append(list, one) < 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

static PyObject *notes_list(drain *all, notes *from) {
  /* Taken out first: making Python objects may run anything, and librdkafka's threads would wait for it. */
  notes taken;
  pthread_mutex_lock(&all->noting);
  taken = *from;
  from->count = 0;
  pthread_mutex_unlock(&all->noting);
  PyObject *list = PyList_New(0);
  for (size_t i = 0; i < taken.count; i++) {
    PyObject *one = list ? Py_BuildValue("iN", taken.all[i].number, as_text(taken.all[i].text)) : NULL;
    if (list && (!one || PyList_Append(list, one) < 0)) Py_CLEAR(list);
    Py_XDECREF(one);
    free(taken.all[i].text);
  }
  return list;
}

static PyObject *client_poll(Client *self, PyObject *arguments) {
  int timeout_ms;
  long long records, bytes;
  if (!PyArg_ParseTuple(arguments, "iLL", &timeout_ms, &records, &bytes) || !enter(self)) return NULL;
  bool whole;
  Py_BEGIN_ALLOW_THREADS
  whole = drain_poll(self->drain, timeout_ms, records, bytes);
  Py_END_ALLOW_THREADS
  PyObject *answer = NULL;
  if (whole) {
    PyObject *events = events_list(self);
    PyObject *errors = events ? notes_list(self->drain, &self->drain->errors) : NULL;
    PyObject *lines = errors ? notes_list(self->drain, &self->drain->lines) : NULL;
    answer = lines ? PyTuple_Pack(3, events, errors, lines) : NULL;
    Py_XDECREF(events);
    Py_XDECREF(errors);
    Py_XDECREF(lines);
  } else
    PyErr_NoMemory();
  drain_clear(self->drain);
  leave(self);
  return answer;
}

static PyObject *client_count(Client *self, PyObject *arguments) {
  int timeout_ms;
  long long records;
  if (!PyArg_ParseTuple(arguments, "iL", &timeout_ms, &records) || !enter(self)) return NULL;
  int64_t counted;
  Py_BEGIN_ALLOW_THREADS
  counted = drain_count(self->drain, timeout_ms, records);
  Py_END_ALLOW_THREADS
  leave(self);
  return PyLong_FromLongLong(counted);
}

/* --- asked ------------------------------------------------------------------------------------ */

static PyObject *client_log_range(Client *self, PyObject *arguments) {
  const char *name;
  int partition, timeout_ms;
  if (!PyArg_ParseTuple(arguments, "sii", &name, &partition, &timeout_ms) || !enter(self)) return NULL;
  int64_t range[2];
  failure why = {0};
  bool answered;
  Py_BEGIN_ALLOW_THREADS
  answered = drain_log_range(self->drain, name, partition, timeout_ms, range, &why);
  Py_END_ALLOW_THREADS
  leave(self);
  return answered ? Py_BuildValue("LL", (long long)range[0], (long long)range[1]) : raise_failure(&why);
}

static PyObject *client_log_end(Client *self, PyObject *arguments) {
  const char *name;
  int partition;
  if (!PyArg_ParseTuple(arguments, "si", &name, &partition) || !enter(self)) return NULL;
  int64_t low, high;
  int code = kafka.get_watermark_offsets(self->drain->client, name, partition, &low, &high);
  leave(self);
  return PyLong_FromLongLong(code == KAFKA_OK ? high : -1);
}

static PyObject *client_exists(Client *self, PyObject *arguments) {
  const char *name;
  int partition, timeout_ms;
  if (!PyArg_ParseTuple(arguments, "sii", &name, &partition, &timeout_ms) || !enter(self)) return NULL;
  failure why = {0};
  int found;
  Py_BEGIN_ALLOW_THREADS
  found = drain_exists(self->drain, name, partition, timeout_ms, &why);
  Py_END_ALLOW_THREADS
  leave(self);
  return found < 0 ? raise_failure(&why) : PyBool_FromLong(found);
}

/* --- the module ------------------------------------------------------------------------------- */

static PyObject *client_set_token(Client *self, PyObject *arguments) {
  const char *token, *principal, *pairs[2 * MOST_EXTENSIONS];
  long long ends;
  PyObject *given;
  if (!PyArg_ParseTuple(arguments, "sLsO!", &token, &ends, &principal, &PyTuple_Type, &given)) return NULL;
  Py_ssize_t count = PyTuple_Size(given);
  if (count % 2 || count > 2 * MOST_EXTENSIONS) return PyErr_Format(PyExc_ValueError, "no pairs of names and values, or too many");
  for (Py_ssize_t i = 0; i < count; i++)
    if (!(pairs[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(given, i), NULL))) return NULL;
  if (!enter(self)) return NULL;
  failure why = {0};
  bool set = drain_set_token(self->drain, token, ends, principal, pairs, (size_t)count, &why);
  leave(self);
  if (!set) return raise_failure(&why);
  Py_RETURN_NONE;
}

static PyMethodDef client_methods[] = {
    {"assign", (PyCFunction)client_assign, METH_O, NULL},
    {"unassign", (PyCFunction)client_unassign, METH_O, NULL},
    {"poll", (PyCFunction)client_poll, METH_VARARGS, NULL},
    {"count", (PyCFunction)client_count, METH_VARARGS, NULL},
    {"log_range", (PyCFunction)client_log_range, METH_VARARGS, NULL},
    {"log_end", (PyCFunction)client_log_end, METH_VARARGS, NULL},
    {"exists", (PyCFunction)client_exists, METH_VARARGS, NULL},
    {"set_token", (PyCFunction)client_set_token, METH_VARARGS, NULL},
    {"close", (PyCFunction)client_close, METH_VARARGS, NULL},
    {0},
};

static PyType_Slot client_slots[] = {
    {Py_tp_init, client_init},         {Py_tp_dealloc, client_dealloc}, {Py_tp_traverse, client_traverse},
    {Py_tp_clear, client_clear},       {Py_tp_methods, client_methods}, {0, NULL},
};

static PyType_Spec client_spec = {"sparkcohort.native._native.Client", sizeof(Client), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, client_slots};

static PyObject *load(PyObject *module, PyObject *arguments) {
  (void)module;
  const char *path;
  char reason[WORDS];
  if (!PyArg_ParseTuple(arguments, "s", &path)) return NULL;
  if (!kafka.version && load_kafka(path, reason, sizeof reason) < 0) {
    PyErr_SetString(PyExc_ImportError, reason);
    return NULL;
  }
  return PyUnicode_FromString(kafka.version_str());
}

static PyMethodDef functions[] = {{"load", load, METH_VARARGS, NULL}, {0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_native", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit__native(void) {
  PyObject *module = PyModule_Create(&definition);
  PyObject *client = module ? PyType_FromSpec(&client_spec) : NULL;
  native_error = client ? PyErr_NewException("sparkcohort.native._native.Error", NULL, NULL) : NULL;
  if (!native_error || PyModule_AddObjectRef(module, "Client", client) < 0 ||
      PyModule_AddObjectRef(module, "Error", native_error) < 0 || PyModule_AddIntConstant(module, "RECORDS", RECORDS) < 0 ||
      PyModule_AddIntConstant(module, "END_OF_LOG", END_OF_LOG) < 0 || PyModule_AddIntConstant(module, "ERROR", ERROR) < 0 ||
      PyModule_AddIntConstant(module, "BAD_TIMESTAMP", BAD_TIMESTAMP) < 0 ||
      PyModule_AddIntConstant(module, "BAD_HEADER", BAD_HEADER) < 0 ||
      PyModule_AddIntConstant(module, "TOO_LARGE", TOO_LARGE) < 0 ||
      PyModule_AddIntConstant(module, "UNPACKING", UNPACKING) < 0 || add_decoder(module) < 0 ||
      add_avro_decoder(module) < 0 || add_protobuf_decoder(module) < 0 || add_json_decoder(module) < 0)
    Py_CLEAR(module);
  Py_XDECREF(client);
  return module;
}
