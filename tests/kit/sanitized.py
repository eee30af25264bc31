"""The native part as Python loads it, built with sanitizers, in a Python of their own.

    run(build(folder), "-m", "tests.kit.sanitized")                         # all corpora, once
    feed(target, 60, 1)                                                     # one target, built and all: what ``make fuzz`` does

What knows Python (buffers, offsets, frames, lists of bad rows, decompression) is in no harness; here it is.  What reads bytes in
Python is fed with its corpora, too, of which some go through the native part.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import sparkcohort
from sparkcohort.native import _native
from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues
from sparkcohort.runtime.shell.values.schema_registry import RegisteredText
from sparkcohort.runtime.values.avro_schema import parse_schema
from tests.kit import avro_fuzz, batches_fuzz, json_fuzz, kafka_targets, protobuf_fuzz, run_targets, targets
from tests.kit.avro_schemas import encode
from tests.kit.fuzz import FLAGS, NATIVE, SANITIZED, sanitized
from tests.kit.parts import decoder
from tests.kit.targets import Target, escaped, replay

ROOT: Final = Path(__file__).resolve().parents[2]
READERS: Final = {target.name: target for target in (*kafka_targets.TARGETS, *run_targets.TARGETS)}
LAST: Final = "COHORT_TESTS_LAST_INPUT"
"""The file that has the input at hand, with its length before it: whoever dies by a sanitizer tells nothing in Python."""

PYTHON = ["-shared", "-fPIC", "-DPy_LIMITED_API=0x030B0000", f"-I{sysconfig.get_path('include')}"]


def build(folder: Path) -> Path:
    """A folder in front of the installed packages, with the same package but for its native part."""
    package = folder / "sparkcohort"
    (package / "native").mkdir(parents=True)
    installed = Path(str(sparkcohort.__file__)).parent
    for each in [*installed.iterdir(), *(installed / "native").iterdir()]:
        if each.name != "native" and each.suffix != ".so":
            (package / each.relative_to(installed)).symlink_to(each)
    (parser,) = json_fuzz.yyjson()
    made, sources = package / "native" / "_native.abi3.so", sorted(map(str, NATIVE.rglob("*.c")))
    parsing = [f"-I{parser.parent}", str(sanitized(parser))]  # the object by its kind, though its name has none
    command = ["cc", *FLAGS, *PYTHON, *SANITIZED, "-o", str(made), *sources, "-x", "none", *parsing, "-lm"]
    subprocess.run(command, check=True, timeout=300)
    return folder


def runtime() -> str:
    """The library that has to be loaded first."""
    return subprocess.run(
        ["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def run(folder: Path, *program: str, timeout_s: float = 500) -> str:
    """What a Python with the native part of this folder prints; AssertionError with its end, and its input, where it fails."""
    last = folder / "last-input"
    environment = {
        **os.environ,
        LAST: str(last),
        "LD_PRELOAD": runtime(),
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "PYTHONMALLOC": "malloc",
        # Leaks are Python's own.  What is given back is kept for a while, but not so much that inputs seem to take it.
        "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=8",
    }
    done = subprocess.run(
        [sys.executable, "-P", *program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        kept = last.read_bytes() if last.exists() else bytes(4)
        data = kept[4 : 4 + int.from_bytes(kept[:4])]
        raise AssertionError(f"{done.stdout[-2000:]}{done.stderr[-5000:]}\ninput: {escaped(data)}")
    return done.stdout


def feed(target: Target, seconds: int, seed: int) -> str:
    """As ``targets.feed``, in a Python whose native part is built with sanitizers."""
    with tempfile.TemporaryDirectory() as folder:
        program = ("-m", "tests.kit.sanitized", target.name, str(seconds), str(seed))
        return run(build(Path(folder)), *program, timeout_s=seconds + 600).strip()


def feed_here(target: Target, seconds: int, seed: int) -> str:
    """In that Python: each input is in the file before it is read."""
    last = os.open(os.environ[LAST], os.O_WRONLY | os.O_CREAT, 0o600)

    def check(data: bytes) -> None:
        os.pwrite(last, len(data).to_bytes(4) + data, 0)
        target.check(data)

    return targets.feed(replace(target, check=check), seconds, seed)


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

    def schema(number: int | str) -> RegisteredText | str:
        texts: dict[int | str, str] = {1: everything, 2: "{"}
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
    while (event := part.take(plan.rows, plan.nbytes)) is not None and event[0] in (_native.RECORDS, _native.UNPACKING):
        if event[5] is not None:
            event[5][0].validate(full=True)
            rows += event[5][0].num_rows
    return rows


def feed_readers() -> int:
    """All that reads bytes in Python; how many inputs there are."""
    return sum(map(replay, READERS.values()))


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
    if sys.argv[1:]:
        sys.stdout.write(feed_here(READERS[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3])))
    else:
        sys.stdout.write(f"{feed_json()} {feed_avro()} {feed_protobuf()} {feed_batches()} {feed_readers()}\n")
