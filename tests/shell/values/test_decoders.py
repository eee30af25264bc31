"""What decoders of all formats do alike: memory that runs out, and threads beside each other."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

AVRO = """
from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.values.avro_schema import parse_schema
def made():
    return AvroValues(parse_schema('{"type": "map", "values": ["null", "string"]}'))
record = bytes.fromhex("020261") + b"\\x02\\x80\\x7d" + b"x" * 8000 + b"\\0"
column, last = [bytes.fromhex("02026100") + b"\\0", record] * 3000, [("a", "x" * 8000)]
"""
JSON = """
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.values.types import INT, STRING, array, struct
def made():
    return JsonValues(struct({"s": STRING, "n": INT, "l": array(STRING)}))
record = b'{"s":{"a":"%s"},"n":null,"l":["a",null]}' % (b"x" * 8000)
column = [record, b'{"n":7,"l":["%s"]}' % (b"y" * 8000)] * 2000
last = {"s": None, "n": 7, "l": ["y" * 8000]}
"""
PROTOBUF = """
from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues
from sparkcohort.runtime.values.protobuf_descriptor import parse_message
from tests.kit.protobuf_schemas import Proto, field, file_set, message, tagged
found = parse_message(file_set(message("M", field("texts", 1, Proto.TYPE_STRING, Proto.LABEL_REPEATED))), "M")
def made():
    return ProtobufValues(found)
column, last = [tagged(1, 2, b"x" * 8000), tagged(1, 2, b"a") * 2] * 3000, {"texts": ["a", "a"]}
"""
RUN = """
import ctypes
import pyarrow as pa
column, kept, failed = pa.array(column), made(), 0
process = ctypes.CDLL(None)
for failures in (1, 2, 3, 5, 8, 13, 21, 34):
    process.fail_large(1)
    values = made()
    for attempt in range(failures):
        try:  # one that has failed before, and one that is new
            (values if attempt % 2 else made()).decode(column.slice(0, 100 * failures))
        except MemoryError:
            failed += 1
            process.fail_large(1)
    try:
        kept.decode(column)
    except MemoryError:
        failed += 1
    process.fail_large(0)
    for decoder in (kept, values):
        rows, bad = decoder.decode(column)
        rows.validate(full=True)
        assert not bad and len(rows) == len(column) and rows[len(rows) - 1].as_py() == last
print("short of memory" if failed > 35 else failed)
"""
THREADS = """
import pyarrow as pa
from concurrent.futures import ThreadPoolExecutor
column = pa.array(column)
expected = made().decode(column)
def work(_):
    values = made()
    return all(values.decode(column) == expected for _ in range(3))
with ThreadPoolExecutor(4) as pool:
    print(all(pool.map(work, range(8))) and expected[0].null_count == 0)
"""
ALL = pytest.mark.parametrize("decoder", [AVRO, JSON, PROTOBUF], ids=["avro", "json", "protobuf"])


@ALL
def test_memory_that_runs_out(short_of_memory: dict[str, str], decoder: str) -> None:
    """It is a MemoryError of one call, wherever it runs out; the next one has all rows."""
    assert ran(decoder + RUN, short_of_memory) == ("short of memory\n", "")


@ALL
def test_threads_with_decoders_of_their_own(short_of_memory: dict[str, str], decoder: str) -> None:
    """Each has what it alone would have."""
    assert ran(decoder + THREADS, short_of_memory) == ("True\n", "")


def ran(program: str, environment: dict[str, str]) -> tuple[str, str]:
    """What a Python prints."""
    command, more = [sys.executable, "-P", "-c", program], {**os.environ, **environment}
    done = subprocess.run(command, env=more, capture_output=True, text=True, timeout=100, check=False)
    return done.stdout, done.stderr
