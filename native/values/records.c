/* See records.h. */
#include "records.h"

#include <stdlib.h>

static bool is_whole(const records *from) {
  if (from->first < 0 || from->rows < 0 || from->first > INT32_MAX || from->rows > INT32_MAX) return false;
  int64_t behind = from->first + from->rows;
  if (from->rows && from->offsets.len / (Py_ssize_t)sizeof(int32_t) < behind + 1) return false;
  return !from->validity.buf || from->validity.len >= (behind + 7) / 8;
}

bool records_given(records *into, PyObject *arguments, bool framed, PyObject **take) {
  long long first, rows;
  *into = (records){0};
  bool parsed = framed ? PyArg_ParseTuple(arguments, "z*z*z*LLpO", &into->validity, &into->offsets, &into->data, &first, &rows,
                                          &into->framed, take)
                       : PyArg_ParseTuple(arguments, "z*z*z*LLO", &into->validity, &into->offsets, &into->data, &first, &rows,
                                          take);
  if (!parsed) return false;
  into->first = first;
  into->rows = rows;
  if (is_whole(into)) return true;
  PyErr_SetString(PyExc_ValueError, "buffers that are shorter than their column");
  records_release(into);
  return false;
}

void records_release(records *from) {
  PyBuffer_Release(&from->validity);
  PyBuffer_Release(&from->offsets);
  PyBuffer_Release(&from->data);
}

bool bad_note(bad_rows *bad, const int64_t figures[MOST_FIGURES]) {
  if (bad->count == bad->room) {
    size_t room = bad->room ? 2 * bad->room : 16;
    int64_t(*all)[MOST_FIGURES] = realloc(bad->all, room * sizeof *all);
    if (!all) return false;
    bad->all = all;
    bad->room = room;
  }
  memcpy(bad->all[bad->count++], figures, sizeof *bad->all);
  return true;
}

static PyObject *one_bad(const int64_t *figures, int count) {
  PyObject *one = PyTuple_New(count);
  for (int i = 0; one && i < count; i++) {
    PyObject *figure = PyLong_FromLongLong(figures[i]);
    if (!figure || PyTuple_SetItem(one, i, figure) < 0) Py_CLEAR(one);
  }
  return one;
}

PyObject *bad_list(const bad_rows *bad, int figures) {
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < bad->count; i++) {
    PyObject *one = one_bad(bad->all[i], figures);
    if (!one || PyList_Append(list, one) < 0) Py_CLEAR(list);
    Py_XDECREF(one);
  }
  return list;
}

PyObject *records_taken(struct ArrowArray *array, PyObject *take) {
  PyObject *what = PyObject_CallFunction(take, "K", (unsigned long long)(uintptr_t)array);
  if (array->release) array->release(array);
  return what;
}

void records_failed(bool full) {
  if (full)
    PyErr_SetString(PyExc_OverflowError, "these rows become more than is allowed, or a column has more bytes or items than its offsets can tell");
  else
    PyErr_NoMemory();
}

static size_t constants_size(PyObject *constants, Py_ssize_t count) {
  size_t size = (size_t)count * sizeof(constant);
  for (Py_ssize_t i = 0; i < count; i++) {
    Py_ssize_t length = PyBytes_Size(PyTuple_GetItem(constants, i));
    if (length < 0) return SIZE_MAX;
    size += (size_t)length;
  }
  return size;
}

void *list_copied(const Py_buffer *steps, const Py_buffer *table, PyObject *constants, const constant **all) {
  Py_ssize_t count = PyTuple_Size(constants);
  size_t size = constants_size(constants, count);
  if (size == SIZE_MAX) return NULL;
  uint8_t *memory = malloc((size_t)steps->len + (size_t)table->len + size + 1), *to = memory;
  if (!memory) return PyErr_NoMemory(), NULL;
  memcpy(to, steps->buf, (size_t)steps->len);
  to += steps->len;
  memcpy(to, table->buf, (size_t)table->len);
  to += table->len;
  constant *into = (constant *)(void *)to;
  *all = into;
  to += (size_t)count * sizeof *into;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *each = PyTuple_GetItem(constants, i);
    into[i] = (constant){to, (size_t)PyBytes_Size(each)};
    memcpy(to, PyBytes_AsString(each), into[i].size);
    to += into[i].size;
  }
  return memory;
}
