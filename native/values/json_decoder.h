/* The Python type that reads columns of JSON objects; see _native.pyi. */
#ifndef COHORT_JSON_DECODER_H
#define COHORT_JSON_DECODER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add JsonDecoder to the module; -1 with an exception. */
int add_json_decoder(PyObject *module);

#endif
