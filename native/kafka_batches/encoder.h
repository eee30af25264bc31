/* The Python functions that write record batches; see _native.pyi. */
#ifndef COHORT_ENCODER_H
#define COHORT_ENCODER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add encode(), seal(), murmur2(), a header's length and the numbers of refusals to the module; -1 with an exception. */
int add_encoder(PyObject *module);

#endif
