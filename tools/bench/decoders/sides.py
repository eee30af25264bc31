"""The decoders that are compared: ours and other people's, each from a column of bytes to columns of the same rows."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from sparkcohort.runtime.shell.values.avro_decoder import AvroValues
from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.shell.values.protobuf_decoder import ProtobufValues
from sparkcohort.runtime.values.avro.schema import parse_schema
from sparkcohort.runtime.values.ddl import parse_ddl
from sparkcohort.runtime.values.protobuf.descriptor import parse_message
from tools.demo import flights

OURS: Final = "Cohort"
SOME: Final = "dep_delay INT, carrier STRING, flight INT, origin STRING, distance INT"
BATCH: Final = 10_000
"""Records of one call, as an agent has them."""

_TYPES: Final = {"INT": pa.int32(), "STRING": pa.string(), "TIMESTAMP": pa.timestamp("us", tz="UTC")}
_PROTOBUF: Final = {"INT": 5, "STRING": 9, "TIMESTAMP": 11}
_AVRO: Final = {"INT": "int", "STRING": "string", "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"}}


class SideError(Exception):
    """A side failed, is not installed, or came to other rows."""


@dataclass(frozen=True)
class Side:
    """A decoder: whose, of what, and what makes columns of one batch; ``rows`` are those it is given, if not all."""

    who: str
    format: str
    fields: str
    decode: Callable[[pa.Array], pa.Table]
    rows: int | None = None

    @property
    def case(self) -> str:
        """What is decoded, in words."""
        return f"{self.format}, {self.fields.count(',') + 1} of {flights.FIELDS.count(',') + 1} columns"


def schema(fields: str) -> pa.Schema:
    """Arrow's schema of fields in DDL."""
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in (each.split() for each in fields.split(", "))])


def avro_schema(fields: str) -> dict[str, Any]:
    """Avro's schema of them, all optional."""
    pairs = (each.split() for each in fields.split(", "))
    columns = [{"name": name, "type": ["null", _AVRO[kind]], "default": None} for name, kind in pairs]
    return {"type": "record", "name": "Flight", "fields": columns}


def message(fields: str) -> Any:
    """Protobuf's message of them, of its own library, all optional."""
    descriptor_pb2, timestamp_pb2 = (
        _library(f"google.protobuf.{name}") for name in ("descriptor_pb2", "timestamp_pb2")
    )
    file = descriptor_pb2.FileDescriptorProto(
        name="flight.proto", syntax="proto2", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    made = file.message_type.add(name="Flight")
    for number, (name, kind) in enumerate((each.split() for each in fields.split(", ")), 1):
        added = made.field.add(name=name, number=number, label=1, type=_PROTOBUF[kind])
        if kind == "TIMESTAMP":
            added.type_name = ".google.protobuf.Timestamp"
    pool = _library("google.protobuf.descriptor_pool").DescriptorPool()
    for each in (timestamp_pb2.DESCRIPTOR.serialized_pb, file.SerializeToString()):
        pool.AddSerializedFile(each)
    return pool.FindMessageTypeByName("Flight")


def descriptor_set(of: Any) -> bytes:
    """What ``protoc`` would have made of a message's file and the one that it needs."""
    files = _library("google.protobuf.descriptor_pb2").FileDescriptorSet()
    for each in (*of.file.dependencies, of.file):
        files.file.add().ParseFromString(each.serialized_pb)
    made: bytes = files.SerializeToString()
    return made


def records() -> tuple[pa.Table, Mapping[str, pa.Array]]:
    """All flights as columns, and as a column of bytes by format."""
    fastavro, message_factory = _library("fastavro"), _library("google.protobuf.message_factory")
    text = pa.array([flight.value for flight in flights.events()], pa.binary())
    rows = _flattened(JsonValues(parse_ddl(flights.FIELDS)).decode(text)[0])
    writer, made = fastavro.parse_schema(avro_schema(flights.FIELDS)), list[bytes]()
    flight, packed = message_factory.GetMessageClass(message(flights.FIELDS)), list[bytes]()
    for row in rows.to_pylist():
        out = io.BytesIO()
        fastavro.schemaless_writer(out, writer, row)
        made.append(out.getvalue())
        packed.append(flight(**row).SerializeToString())
    return rows, {"JSON": text, "Avro": pa.array(made, pa.binary()), "Protobuf": pa.array(packed, pa.binary())}


def sides() -> Iterator[Side]:
    """Every side, ours first in each case."""
    for fields in (flights.FIELDS, SOME):
        yield Side(OURS, "JSON", fields, _ours(JsonValues(parse_ddl(fields))))
        yield Side("pyarrow.json", "JSON", fields, _pyarrow(schema(fields)))
        yield Side("arro3-io", "JSON", fields, _arro3(schema(fields)))
    reader = parse_schema(json.dumps(avro_schema(flights.FIELDS)))
    for fields in (flights.FIELDS, SOME):
        yield Side(OURS, "Avro", fields, _ours(AvroValues(reader, parse_ddl(fields))))
        if fields == flights.FIELDS:
            yield Side("pyruhvro", "Avro", fields, _pyruhvro(json.dumps(avro_schema(fields))))
        yield Side("fastavro", "Avro", fields, _fastavro(fields), rows=2 * BATCH)
    of = message(flights.FIELDS)
    for fields in (flights.FIELDS, SOME):
        values = ProtobufValues(parse_message(descriptor_set(of), "Flight"), parse_ddl(fields))
        yield Side(OURS, "Protobuf", fields, _ours(values))
    yield Side("ptars", "Protobuf", flights.FIELDS, _ptars(of))


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise SideError(f"{name} is not installed ({error}): run make bench-decoders") from None


def _flattened(structs: pa.Array) -> pa.Table:
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(structs)])


def _ours(values: Any) -> Callable[[pa.Array], pa.Table]:
    def decode(batch: pa.Array) -> pa.Table:
        rows, bad = values.decode(batch)
        if bad:
            raise SideError(f"{OURS}: {bad[0]}")
        return _flattened(rows)

    return decode


def _lines(batch: pa.Array) -> bytes:
    """Records, a line each: what those want that read files."""
    joined: bytes = pc.binary_join(pa.ListArray.from_arrays([0, len(batch)], batch), b"\n")[0].as_py()
    return joined


def _pyarrow(wanted: pa.Schema) -> Callable[[pa.Array], pa.Table]:
    parse = pyarrow.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    read = pyarrow.json.ReadOptions(use_threads=False, block_size=64 << 20)

    def decode(batch: pa.Array) -> pa.Table:
        return pyarrow.json.read_json(pa.BufferReader(_lines(batch)), read, parse)

    return decode


def _arro3(wanted: pa.Schema) -> Callable[[pa.Array], pa.Table]:
    arro3 = _library("arro3.io")

    def decode(batch: pa.Array) -> pa.Table:
        return pa.table(arro3.read_json(io.BytesIO(_lines(batch)), wanted, batch_size=BATCH).read_all())

    return decode


def _pyruhvro(text: str) -> Callable[[pa.Array], pa.Table]:
    pyruhvro = _library("pyruhvro")
    return lambda batch: pa.Table.from_batches([pyruhvro.deserialize_array(batch.to_pylist(), text)])


def _fastavro(fields: str) -> Callable[[pa.Array], pa.Table]:
    fastavro = _library("fastavro")
    writer, reader = (fastavro.parse_schema(avro_schema(each)) for each in (flights.FIELDS, fields))

    def decode(batch: pa.Array) -> pa.Table:
        rows = [fastavro.schemaless_reader(io.BytesIO(each), writer, reader) for each in batch.to_pylist()]
        return pa.Table.from_pylist(rows, schema(fields))

    return decode


def _ptars(of: Any) -> Callable[[pa.Array], pa.Table]:
    ptars = _library("ptars")
    handler = ptars.HandlerPool([of.file], ptars.PtarsConfig(timestamp_unit="us")).get_for_message(of)
    return lambda batch: pa.Table.from_batches([handler.array_to_record_batch(batch)])
