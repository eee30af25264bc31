/* The Python module: see _native.pyi for what each thing is.  This file, those named decoder, encoder and values/records.c know Python, by its stable ABI.
 *
 * The rooms, in the order of the data:
 *
 *   kafka_batches/  our own Fetch client brings bytes: decoder (one partition's share of a response, for Python)
 *                   -> batches (Kafka's record batches, record by record, into the columns), with crc32c and layout;
 *                   encoder is the way back: columns become record batches
 *   arrow/          what it fills: columns (growing) -> export (into Arrow's C data interface, arrow.h) in blocks of
 *                   memory; topics (with the column of each one's name) and utf8
 *   values/         what is inside of records: tree (growing columns of any shape) -> tree_export (into Arrow), avro
 *                   (runs a list of steps; avro_valid looks at it first; avro_wire: how values are written), avro_decoder
 *                   (a column of bytes, for Python); protobuf in the same way; json_plan (what is read), json (reads it;
 *                   yyjson parses, see yyjson.txt), json_text (dates, times, decimals), json_decoder
 *
 * events.h has what the reader of records answers with; arrow/ includes no reader. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "events.h"
#include "kafka_batches/decoder.h"
#include "kafka_batches/encoder.h"
#include "values/avro_decoder.h"
#include "values/json_decoder.h"
#include "values/protobuf_decoder.h"

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_native", .m_size = -1};

PyMODINIT_FUNC PyInit__native(void) {
  PyObject *module = PyModule_Create(&definition);
  if (!module || PyModule_AddIntConstant(module, "RECORDS", RECORDS) < 0 ||
      PyModule_AddIntConstant(module, "ERROR", ERROR) < 0 ||
      PyModule_AddIntConstant(module, "BAD_TIMESTAMP", BAD_TIMESTAMP) < 0 ||
      PyModule_AddIntConstant(module, "BAD_HEADER", BAD_HEADER) < 0 ||
      PyModule_AddIntConstant(module, "TOO_LARGE", TOO_LARGE) < 0 ||
      PyModule_AddIntConstant(module, "UNPACKING", UNPACKING) < 0 || add_decoder(module) < 0 || add_encoder(module) < 0 ||
      add_avro_decoder(module) < 0 || add_protobuf_decoder(module) < 0 || add_json_decoder(module) < 0)
    Py_CLEAR(module);
  return module;
}
