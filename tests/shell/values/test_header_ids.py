"""Schema ids in headers: read before the record's first bytes, as Confluent's own deserializers do."""

from __future__ import annotations

import io
import struct
from uuid import UUID

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.common.serde import SchemaId
from confluent_kafka.serialization import SerializationError
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.shell.values import header_ids
from sparkcohort.runtime.shell.values.arrow_types import arrow_type
from sparkcohort.runtime.shell.values.header_ids import HeaderIds
from sparkcohort.runtime.shell.values.writer_schemas import MOST_ID
from sparkcohort.runtime.values.columns import HEADERS

MINE, OTHER = "__value_schema_id", "__key_schema_id"
GUIDS = [UUID(int=number << 120 | number) for number in range(4)]

ids = st.one_of(
    st.sampled_from(GUIDS).map(lambda guid: b"\1" + guid.bytes),
    st.sampled_from([0, 1, 7, 2**31 - 1, 2**31, 2**32 - 1]).map(lambda number: b"\0" + number.to_bytes(4, "big")),
)
header_values = st.one_of(ids, ids.map(lambda header: header + b"\0"), st.binary(max_size=20), st.none())
header_lists = st.none() | st.lists(st.tuples(st.sampled_from([MINE, OTHER, ""]), header_values), max_size=4)
frames = st.sampled_from([0, 1, 2**31, 2**31 + 1]).map(lambda number: b"\0" + number.to_bytes(4, "big") + b"x")
record_lists = st.lists(st.tuples(st.none() | st.binary(max_size=6) | frames, header_lists), max_size=12)

Headers = list[tuple[str, bytes | None]] | None


def arrays(records: list[tuple[bytes | None, Headers]]) -> tuple[pa.Array, pa.Array]:
    """Values and headers, in slices of larger arrays."""
    lists = [
        [{"key": key, "value": value} for key, value in pairs] if pairs is not None else None for _, pairs in records
    ]
    before = [{"key": MINE, "value": b"\0\0\0\0\x63"}]
    values = pa.array([b"before", *(value for value, _ in records)], pa.binary())
    return values[1:], pa.array([before, *lists], arrow_type(HEADERS))[1:]


def expected(value: bytes, pairs: Headers, *, indexed: bool) -> tuple[int | str, bytes] | None:
    """The id and what follows it, by Confluent's reader of ids; None where the record has none that a registry can have."""
    mine = [header for name, header in pairs or () if name == MINE]
    found, left = SchemaId("AVRO"), io.BytesIO((mine[-1] or b"") if mine else value)
    try:
        found.from_bytes(left)
    except (SerializationError, struct.error, ValueError):
        return None
    rest = left.read()
    if found.guid is not None:
        return (str(found.guid), rest + value) if mine and (indexed or not rest) else None
    if found.id is None or found.id >= 2**31 or (mine and rest and not indexed):
        return None
    return found.id, rest + (value if mine else b"")


@pytest.mark.parametrize("indexed", [False, True])
@given(batches=st.lists(record_lists, max_size=3))
def test_the_header_is_read_first(batches: list[list[tuple[bytes | None, Headers]]], indexed: bool) -> None:
    """The last header of the name, an id or a GUID; a record that has it is never read by its first bytes."""
    names = HeaderIds("value", indexed=indexed)
    for records in batches:
        values, headers = arrays(records)
        framed, faults = names.add_frames(values, headers)
        framed.validate(full=True)
        for row, ((value, pairs), made) in enumerate(zip(records, framed.to_pylist(), strict=True)):
            if value is None:
                assert made is None and row not in faults
                continue
            wanted = expected(value, pairs, indexed=indexed)
            if wanted is None:
                number = int.from_bytes(made[1:5], "big") if made[:1] == b"\0" and len(made) > 4 else None
                assert number is None or names.registry_key(number) == number > MOST_ID
            else:
                assert (names.registry_key(int.from_bytes(made[1:5], "big")), made[5:]) == wanted
                assert made[:1] == b"\0" and row not in faults


def test_guids_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up GUIDs cost their records, and no memory; those that are known go on."""
    monkeypatch.setattr(header_ids, "MOST_GUIDS", 2)
    names = HeaderIds("key")
    records: list[tuple[bytes | None, Headers]] = [(b"x", [(OTHER, b"\1" + guid.bytes)]) for guid in [*GUIDS, GUIDS[0]]]
    framed, faults = names.add_frames(*arrays(records))
    assert faults.keys() == {2, 3}
    assert [made[:2] for made in framed.to_pylist()] == [b"\0\x80", b"\0\x80", b"", b"", b"\0\x80"]
