"""Run by a Python that has the wheel installed, and maybe nothing of this tree: the native part decodes two things."""

import pyarrow as pa

from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.values.avro_schema import parse_schema
from sparkcohort.runtime.values.types import INT, struct

for values, record, wanted in (
    (JsonValues(struct({"n": INT})), b'{"n":7}', {"n": 7}),
    (AvroValues(parse_schema('"int"')), b"\x0e", 7),
):
    read, bad = values.decode(pa.array([record, b"\xff"], pa.binary()))
    if read.to_pylist() != [wanted, None] or len(bad) != 1:
        raise SystemExit(f"read {read.to_pylist()} of {record!r}")
print("loaded")
