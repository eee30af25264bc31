/* The Python type that reads columns of Avro's records; see _native.pyi. */
#ifndef COHORT_AVRO_DECODER_H
#define COHORT_AVRO_DECODER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add AvroDecoder to the module; -1 with an exception. */
int add_avro_decoder(PyObject *module);

#endif
