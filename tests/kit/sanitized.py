"""The native parts as Python loads them, built with sanitizers: run this to feed them with the corpora.

    LD_PRELOAD=<libasan> PYTHONPATH=<folder of build()> python -P -m tests.kit.sanitized

What knows Python (buffers, offsets, frames, lists of bad rows, decompression) is in no harness; here it is.  What reads bytes in
Python is fed with its corpora, too, of which some go through the native parts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pyarrow as pa

import sparkcohort
from sparkcohort.native import _drain
from sparkcohort.runtime.shell.registry.schema_registry import RegisteredText
from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues
from sparkcohort.runtime.values.avro.schema import parse_schema
from tests.kit import avro_fuzz, batches_fuzz, json_fuzz, protobuf_fuzz
from tests.kit.avro_schemas import encode
from tests.kit.fuzz import FLAGS, NATIVE, SANITIZED, sanitized
from tests.kit.fuzzing import TARGETS
from tests.kit.line_fuzz import replay
from tests.kit.parts import decoder

PYTHON = ["-shared", "-fPIC", "-DPy_LIMITED_API=0x030B0000", f"-I{sysconfig.get_path('include')}"]
SHARED = ("arrow/blocks.c", "values/records.c", "values/tree.c", "values/tree_export.c")


def build(folder: Path) -> Path:
    """A folder in front of the installed packages, with the same package but for its native parts."""
    package = folder / "sparkcohort"
    (package / "native").mkdir(parents=True)
    installed = Path(str(sparkcohort.__file__)).parent
    for each in [*installed.iterdir(), *(installed / "native").iterdir()]:
        if each.name != "native" and each.suffix != ".so":
            (package / each.relative_to(installed)).symlink_to(each)
    (parser,) = json_fuzz.yyjson()
    sources = {path for path in NATIVE.rglob("*.c") if path.parent.name != "json"}
    _compile(package / "native" / "_drain.abi3.so", sorted(map(str, sources)))
    mine = [*map(str, (NATIVE / "json").glob("*.c")), *(str(NATIVE / name) for name in SHARED)]
    _compile(package / "native" / "_json.abi3.so", [f"-I{parser.parent}", *mine, "-x", "none", str(sanitized(parser))])
    return folder


def _compile(to: Path, sources: list[str]) -> None:
    command = ["cc", *FLAGS, *PYTHON, *SANITIZED, "-o", str(to), *sources, "-lm"]
    subprocess.run(command, check=True, timeout=300)


def runtime() -> str:
    """The library that has to be loaded first."""
    return subprocess.run(
        ["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def feed_json() -> int:
    """All of the corpus into all types, whole and in pieces; how many rows were good."""
    records = [*(data[1:] for data in json_fuzz.FUZZED.inputs()), None]
    good = 0
    for target in json_fuzz.TARGETS:
        good += _feed(JsonValues(target), pa.array(records * 3, pa.binary()))
    return good


def feed_avro() -> int:
    """The same, with a frame and without one, and with schemas that are none."""
    everything = json.dumps(avro_fuzz.EVERYTHING)
    good = encode(avro_fuzz.EVERYTHING, avro_fuzz.VALUE)
    records = [record for data in avro_fuzz.FUZZED.inputs() for record in (data[1:], good)]
    framed = [b"\0" + number.to_bytes(4, "big") + record for record in records for number in (1, 2, 3)]

    def schema(number: int) -> RegisteredText | str:
        texts = {1: everything, 2: "{"}
        return RegisteredText("AVRO", texts[number]) if number in texts else "there is none"

    newer = parse_schema(json.dumps(avro_fuzz.NEWER))
    whole = _feed(AvroValues(newer, writer=parse_schema(everything)), pa.array([*records, None], pa.binary()))
    return whole + _feed(AvroValues(newer, writers=schema), pa.array([*framed, None, *records], pa.binary()))


def feed_protobuf() -> int:
    """The same, of two syntaxes, with a frame and without one."""
    records = pa.array([*(data[1:] for data in protobuf_fuzz.FUZZED.inputs()), None], pa.binary())
    return sum(
        _feed(ProtobufValues(protobuf_fuzz.found(syntax), framed=framed), records)
        for syntax in ("proto2", "proto3")
        for framed in (False, True)
    )


def feed_batches() -> int:
    """Record batches whose decompression is none, at one go and in pieces; how many rows there are."""
    return sum(_rows(data, in_pieces=in_pieces) for data in batches_fuzz.FUZZED.inputs() for in_pieces in (False, True))


def _rows(data: bytes, *, in_pieces: bool) -> int:
    """Up to the end or the first fault."""
    plan, records, rows = batches_fuzz.plan_of(data), data[1:], 0
    by = decoder(
        columns=plan.columns,
        largest=plan.largest,
        window=plan.piece or 200,
        by=lambda _codec, packed, _largest: pa.BufferReader(pa.py_buffer(packed)) if in_pieces else bytes(packed),
    )
    part = by.part(
        records, 0, len(records), "t", 7, plan.position, plan.stop, plan.high_watermark, list(plan.aborted)
    )  # fmt: skip
    while (event := part.take(plan.rows, plan.nbytes)) is not None and event[0] in (_drain.RECORDS, _drain.UNPACKING):
        if event[5] is not None:
            event[5][0].validate(full=True)
            rows += event[5][0].num_rows
    return rows


def feed_readers() -> int:
    """All that reads bytes in Python; how many inputs there are."""
    return sum(map(replay, TARGETS.values()))


def _shown(rows: Any) -> str:
    return str(rows.to_string(window=10_000))


def _feed(decoder: JsonValues | AvroValues | ProtobufValues, column: Any) -> int:
    """Whole, and each slice of a few rows, which begins and ends inside of a byte of the validity."""
    rows, bad = decoder.decode(column)
    rows.validate(full=True)
    for start in range(0, len(column), 5):
        part, _ = decoder.decode(column.slice(start, 7))
        if _shown(part) != _shown(rows.slice(start, 7)):  # NaN is itself
            raise AssertionError(f"other rows from {start} on")
    return len(rows) - len(bad)


if __name__ == "__main__":
    sys.stdout.write(f"{feed_json()} {feed_avro()} {feed_protobuf()} {feed_batches()} {feed_readers()}\n")
