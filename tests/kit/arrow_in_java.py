"""The jar's readers, asked line by line in a JVM of their own: of Arrow streams (``ArrowStream.java``), of slots (``SlotReader.java``)."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import random
import subprocess
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyspark

from sparkcohort.streaming.installation import jar_path
from tests.kit.jars import ROOT, java
from tests.kit.java_program import JavaProgram

SOURCES: Final = Path(__file__).parent / "java"
JARS: Final = Path(str(pyspark.__file__)).parent / "jars"
STEADY: Final = ["-Xms64m", "-Xmx64m", "-XX:+AlwaysPreTouch"]
"""A heap that doesn't grow: what a process then takes is outside of it."""
TYPES: dict[str, tuple[str, pa.DataType, Any]] = {
    "boolean": ("boolean", pa.bool_(), lambda i: i % 3 == 0),
    "tiny": ("tinyint", pa.int8(), lambda i: i - 50),
    "small": ("smallint", pa.int16(), lambda i: i * 300 - 15000),
    "whole": ("int", pa.int32(), lambda i: i * 10**7),
    "long": ("bigint", pa.int64(), lambda i: i * 10**15),
    "single": ("float", pa.float32(), lambda i: i / 4),
    "twice": ("double", pa.float64(), lambda i: i / 7),
    "words": ("string", pa.string(), lambda i: "é" * (i % 5) + str(i)),
    "bytes": ("binary", pa.binary(), lambda i: bytes([i]) * (i % 4)),
    "day": ("date", pa.date32(), lambda i: dt.date(1970, 1, 1) + dt.timedelta(days=i)),
    "instant": ("timestamp", pa.timestamp("us", "UTC"), lambda i: i * 10**9),
    "local": ("timestamp_ntz", pa.timestamp("us"), lambda i: i * 10**9),
    "price": ("decimal(10,2)", pa.decimal128(10, 2), lambda i: decimal.Decimal(i * 2 - 100) / 4),
    "large": ("decimal(30,5)", pa.decimal128(30, 5), lambda i: decimal.Decimal((i - 50) * 10**15) / 32),
    "pair": (
        "struct<a:int,b:string>",
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        lambda i: {"a": i, "b": "q" * (i % 3)},
    ),
    "names": ("array<string>", pa.list_(pa.string()), lambda i: [str(j) for j in range(i % 4)]),
    "counts": ("map<string,int>", pa.map_(pa.string(), pa.int32()), lambda i: [(str(j), j) for j in range(i % 3)]),
    "deep": (
        "array<struct<k:string,v:array<int>>>",
        pa.list_(pa.struct([("k", pa.string()), ("v", pa.list_(pa.int32()))])),
        lambda i: [{"k": str(j), "v": list(range(j))} for j in range(i % 3)],
    ),
}
DDL = ", ".join(f"{name} {ddl}" for name, (ddl, _, _) in TYPES.items())


def typed_batch(rows: int) -> pa.RecordBatch:
    """Every type, a fifth of its values null."""
    chance = random.Random(1)
    columns = [
        pa.array([None if chance.random() < 0.2 else value(i) for i in range(rows)], kind)
        for _, kind, value in TYPES.values()
    ]
    return pa.RecordBatch.from_arrays(columns, list(TYPES))


def stream(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


class ReaderInJava(JavaProgram):
    """A program of the jar's package: ``ArrowBatches`` or ``SlotReads``, which says what to ask it."""

    def __init__(self, classes: Path, program: str) -> None:
        """Compiles the program into a folder, with the compiler that made the jar: it reads what only the package sees."""
        (compiler,) = (ROOT / ".cache" / "jars-compiler" / "compiler").glob("ecj-*.jar")
        self._class_path = os.pathsep.join([str(classes), str(jar_path()), *map(str, sorted(JARS.glob("*.jar")))])
        command = [java(), "-jar", str(compiler), "--release", "17", "-proc:none", "-nowarn", "-cp", self._class_path]
        subprocess.run([*command, "-d", str(classes), str(SOURCES / f"{program}.java")], check=True, timeout=120)
        self.source = Path(f"sparkcohort.{program}")

    def arguments(self) -> list[str]:
        """Java's: the class path is that of the compiled program."""
        opened = super().arguments()[:-2]
        return [
            *opened,
            *STEADY,
            "-Duser.timezone=UTC",
            "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
            "-cp",
            self._class_path,
        ]
