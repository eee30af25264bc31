/* The Python type that reads columns of Protobuf's records; see _native.pyi. */
#ifndef COHORT_PROTOBUF_DECODER_H
#define COHORT_PROTOBUF_DECODER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Add ProtobufDecoder to the module; -1 with an exception. */
int add_protobuf_decoder(PyObject *module);

#endif
