"""Spark's own ``from_avro`` without a session: Avro's Java reader, then Spark's deserializer, in a JVM of their own."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from sparkcohort.runtime.values.types import ColumnType
from tests.kit.java_program import JavaProgram


class SparkAvro(JavaProgram):
    """Spark's deserializers of Avro and JSON."""

    source = Path(__file__).with_name("java") / "SparkAvro.java"

    def type_of(self, schema: Any) -> str:
        """The column's type; what begins with "no" is why there is none."""
        return self.ask(f"type {json.dumps(schema)}")

    def schemas(self, writer: Any, reader: Any) -> str:
        """What the next records were written with, and are to be read as; "ok", or why not."""
        return self.ask(f"schemas {json.dumps(writer)}\t{json.dumps(reader)}")

    def record(self, data: bytes) -> Any:
        """The value as ``shown`` has it; None when the record is bad, of which a record itself is never."""
        answer = self.ask(f"record {data.hex()}")
        return None if answer.startswith("bad ") else sorted_maps(json.loads(answer))

    def columns(self, ddl: str) -> None:
        """What the next JSON is to be read into; ``_corrupt STRING`` among them is the column of bad records."""
        answer = self.ask(f"columns {ddl}")
        if answer != "ok":
            raise ValueError(answer)

    def zone(self, name: str) -> None:
        """The session's time zone, for the columns that come next."""
        self.ask(f"zone {name}")

    def json(self, record: bytes) -> Any:
        """What ``from_json`` makes of it, as ``shown`` has it."""
        answer = self.ask(f"json {record.hex()}")
        if answer.startswith("no "):
            raise ValueError(answer)
        return json.loads(answer)

    def to_json(self, record: bytes) -> bytes | None:
        """What ``to_json`` makes of the columns that ``from_json`` reads in a record."""
        answer = self.ask(f"tojson {record.hex()}")
        if answer.startswith("no "):
            raise ValueError(answer)
        return None if answer == "null" else bytes.fromhex(answer)

    def to_avro(self, record: bytes, schema: str) -> bytes:
        """What ``to_avro`` makes of them, by a schema."""
        answer = self.ask(f"toavro {record.hex()}\t{schema}")
        if answer.startswith("no "):
            raise ValueError(answer)
        return bytes.fromhex(answer)

    def avro_type(self, ddl: str) -> Any:
        """The schema that ``to_avro`` has for these columns."""
        return json.loads(self.ask(f"avrotype {ddl}"))


def shown(value: Any, kind: ColumnType) -> Any:
    """A value as SparkAvro.java shows it: numbers by their bits, texts and bytes in hex, a map as its keys and values."""
    if value is None:
        return None
    if kind.kind == "struct":
        return {name: shown(value[name], child) for name, child in zip(kind.names, kind.children, strict=True)}
    if kind.kind == "array":
        return [shown(each, kind.children[0]) for each in value]
    if kind.kind == "map":
        keys, values = ([shown(pair[place], kind.children[place]) for pair in value] for place in (0, 1))
        return sorted_maps([keys, values])
    if kind.kind == "binary":
        return "x" + value.hex()
    if kind.kind == "string":
        return "t" + value.encode().hex()
    if kind.kind in ("float", "double"):
        form, bits, mark = (">f", ">I", "f") if kind.kind == "float" else (">d", ">Q", "d")
        return f"{mark}{struct.unpack(bits, struct.pack(form, value))[0]:x}"
    return f"n{value:f}" if kind.kind == "decimal" else value


def sorted_maps(value: Any) -> Any:
    """The same with all maps in the order of their keys: Java's have none."""
    if isinstance(value, dict):
        return {key: sorted_maps(inner) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    inner = [sorted_maps(each) for each in value]
    if len(inner) == 2 and all(isinstance(each, list) for each in inner) and len(inner[0]) == len(inner[1]):
        keys, values = inner
        if keys and all(isinstance(key, str) and key.startswith("t") for key in keys):
            order = sorted(range(len(keys)), key=lambda place: keys[place])
            return [[keys[place] for place in order], [values[place] for place in order]]
    return inner
