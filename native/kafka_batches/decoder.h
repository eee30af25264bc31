/* The Python type that reads Fetch responses; see _native.pyi. */
#ifndef COHORT_DECODER_H
#define COHORT_DECODER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add Decoder, Part, crc32c() and the numbers of codecs to the module; -1 with an exception. */
int add_decoder(PyObject *module);

#endif
