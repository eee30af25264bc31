"""What a few bytes stand for is unpacked in pieces: never more memory than a few of them, and every record whole."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.shell.kafka.fetch.compression import MOST_RATIO, SNAPPY, unpack
from sparkcohort.runtime.shell.kafka.fetch.decode import WINDOW
from tests.kit.parts import Read, decoder, decompress, in_pieces
from tests.kit.record_batches import CODECS, Batch, Record, compressed, encode, encoded, framed
from tests.kit.tier import of_tier

MIB = 1 << 20


# --- memory ---------------------------------------------------------------------------------------


MORE = pytest.mark.thorough("each codec and shape of a heavy batch")


@pytest.mark.parametrize(
    ("kind", "codec"),
    [
        ("large values", "zstd"),
        ("nothing wanted", "snappy"),
        *(pytest.param("large values", codec, marks=MORE) for codec in CODECS[1:4]),
        pytest.param("nothing wanted", "gzip", marks=MORE),
        pytest.param("many small records", "zstd", marks=MORE),
        ("many headers", "none"),
        pytest.param("one large value", "zstd", marks=MORE),
    ],
)
def test_memory_is_that_of_a_few_pieces(kind: str, codec: str) -> None:
    """Hundreds of megabytes in a batch of some KB, under a hard limit: all rows, in batches within the limit asked for."""
    command = [sys.executable, "-m", "tests.kit.heavy", kind, codec]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["rows"] == found["expected"]
    assert found["whole"] > 1.5 * found["most"]
    assert found["largest_batch"] <= found["budget"]
    assert found["grown"] <= found["most"]


# --- pieces ---------------------------------------------------------------------------------------

VALUES = st.one_of(st.binary(max_size=40), st.integers(0, 9_000).map(bytes))
RECORDS = st.lists(st.tuples(VALUES, st.integers(0, 3)), min_size=1, max_size=8)


def batch_of(values: list[tuple[bytes, int]], codec: int) -> Batch:
    """One record for each value, which has so many headers."""
    records = [Record(at, value=value, headers=((b"h", b""),) * n) for at, (value, n) in enumerate(values)]
    return Batch(0, tuple(records), codec=codec)


@settings(max_examples=of_tier(quick=30, thorough=150))
@given(
    values=RECORDS,
    codec=st.integers(1, 4),
    window=st.integers(1, 12_000),
    start=st.integers(0, 8),
    end=st.integers(1, 9),
)
def test_pieces_of_any_size(values: list[tuple[bytes, int]], codec: int, window: int, start: int, end: int) -> None:
    """The same rows and the same end as by one piece, from any record to any record."""
    data = encode(batch_of(values, codec))
    start = min(start, len(values) - 1)
    by_one, by_many = (
        Read(data, start, max(end, start + 1), by=decoder(window=w, by=in_pieces)) for w in (WINDOW, window)
    )
    assert by_many.rows == by_one.rows
    assert [row[0] for row in by_many.rows] == list(range(start, min(max(end, start + 1), len(values))))
    assert (by_many.position, by_many.fault) == (by_one.position, "")


@settings(max_examples=of_tier(quick=30, thorough=150))
@given(values=RECORDS, codec=st.integers(1, 4), window=st.integers(1, 12_000), cut=st.floats(0, 1), more=st.booleans())
def test_streams_that_end_early(
    values: list[tuple[bytes, int]], codec: int, window: int, cut: float, more: bool
) -> None:
    """Compressed bytes cut anywhere under a right checksum, or too few records in them: a beginning of the rows, an error."""
    batch = batch_of(values, codec)
    payload = b"".join(map(encoded, batch.records))
    whole = Read(encode(batch)).rows
    if more:  # the batch says that it has one record more
        data = framed(Batch(0, last=len(values), count=len(values) + 1, codec=codec), compressed(codec, payload))
    else:
        packed = compressed(codec, payload, xerial=False)
        data = framed(batch, packed[: int(cut * (len(packed) - 1))])
    found = Read(data, by=decoder(window=window, by=in_pieces))
    assert found.rows == whole[: len(found.rows)]
    assert found.position == len(found.rows)
    if len(found.rows) < len(values) or more:
        assert found.fault == "error"
        assert found.number in (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_streams_of_several_parts(codec: int) -> None:
    """Members of gzip, frames of lz4 and zstd, one behind the other: one stream, wherever a record is cut."""
    records = tuple(Record(at, value=bytes([at]) * 700) for at in range(20))
    payload = b"".join(map(encoded, records))
    packed = b"".join(compressed(codec, payload[at : at + 999]) for at in range(0, len(payload), 999))
    for window in (1, 1_000, WINDOW):
        found = Read(framed(Batch(0, records, codec=codec), packed), by=decoder(window=window, by=in_pieces))
        assert [row[2] for row in found.rows] == [record.value for record in records]
        assert (found.position, found.fault) == (20, "")


def test_no_more_is_unpacked_than_is_wanted() -> None:
    """A range that ends in the middle of a batch doesn't care what follows there, however damaged; one piece later it does."""
    values = [(bytes(5_000), 0)] * 10
    payload = b"".join(map(encoded, batch_of(values, 4).records))
    data = framed(batch_of(values, 4), compressed(4, payload[:25_000]) + b"nonsense")
    assert len(Read(data, 0, 4, by=decoder(window=6_000, by=in_pieces)).rows) == 4
    found = Read(data, 0, 6, by=decoder(window=6_000, by=in_pieces))
    assert (found.fault, found.position) == ("error", len(found.rows))


# --- too large ------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("headers", [0, 2_000])
@pytest.mark.parametrize("window", [100, WINDOW])
def test_a_record_beyond_the_bound(codec: int, headers: int, window: int) -> None:
    """What lies before it comes, then its offset and size; whoever begins behind it reads on, and one that ends before it."""
    large = Record(1, value=bytes(10 if headers else 20_000), headers=((b"", None),) * headers)
    records = (Record(0, value=b"before"), large, Record(2, value=b"behind"))
    data = encode(Batch(10, records, codec=codec))
    found = Read(data, 10, by=decoder(largest=15_000, window=window, by=in_pieces))
    assert ([row[2] for row in found.rows], found.fault, found.position) == ([b"before"], "large", 11)
    assert 15_000 < found.number < 30_000
    found = Read(data, 12, by=decoder(largest=15_000, window=window, by=in_pieces))
    assert ([row[2] for row in found.rows], found.fault, found.position) == ([b"behind"], "", 13)
    found = Read(data, 10, 11, by=decoder(largest=15_000, window=window, by=in_pieces))
    assert ([row[2] for row in found.rows], found.fault) == ([b"before"], "")
    found = Read(data, 10, by=decoder(largest=30_000, window=window, by=in_pieces))
    assert (len(found.rows), found.fault) == (3, "")


def test_a_block_of_snappy_is_as_a_record() -> None:
    """It can only be unpacked as a whole: one that says it is larger than allowed is not, whatever its records are."""
    payload = b"".join(encoded(Record(at, value=bytes(5_000))) for at in range(600))
    batch = Batch(0, last=599, count=600, codec=SNAPPY)
    data = framed(batch, compressed(SNAPPY, payload, xerial=False))
    assert len(payload) > MIB
    found = Read(data, by=decoder(largest=2 * MIB))
    assert (found.rows, found.fault, found.position, found.number) == ([], "large", 0, len(payload))
    assert len(Read(data, by=decoder(largest=4 * MIB)).rows) == 600
    assert len(Read(framed(batch, compressed(SNAPPY, payload)), by=decoder(largest=2 * MIB)).rows) == 600


def test_a_number_of_headers_that_lies() -> None:
    """More headers than bytes for them are no reason to make room for them."""
    body = b"\0\0\0\1\1" + b"\xfe\xff\xff\xff\x0f" + bytes(40)  # key and value null, 2**31 - 1 headers
    found = Read(framed(Batch(0, count=1), bytes([2 * len(body)]) + body))
    assert (found.fault, found.number, found.words) == (
        "error", KafkaError._BAD_MSG, "the headers of a record can't be read"
    )  # fmt: skip


def test_snappys_ratio() -> None:
    """What snappy itself makes of zeros is nearly what it can make of anything; a block that says more is damaged."""
    packed = pa.Codec("snappy").compress(bytes(10 * MIB))
    assert 0.98 * MOST_RATIO < 10 * MIB / packed.size <= MOST_RATIO
    assert decompress(SNAPPY, memoryview(b"\0")) == b""
    with pytest.raises(ValueError, match="states a length that it can't have"):
        unpack(SNAPPY, memoryview(b"\x80\x01\0\0"), MIB)
