"""Record batches decoded in C: the rows that a log was made of, and no harm from any bytes."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.native import _native
from sparkcohort.runtime.shell.kafka.fetch.compression import SNAPPY, unpack
from sparkcohort.runtime.shell.kafka.fetch.decode import WINDOW
from sparkcohort.runtime.values.columns import KAFKA_ROW, fields_of
from tests.kit.parts import LARGEST, NO_END, ODD_NAMES, Read, aborted_in, decoder, in_pieces, logs
from tests.kit.record_batches import (
    ABORT,
    CODECS,
    COMMIT,
    HEAD,
    TRANSACTIONAL,
    Batch,
    Record,
    encode,
    encoded,
    framed,
    marker,
    summed,
    visible_rows,
    whole,
)
from tests.kit.tier import of_tier


@settings(max_examples=of_tier(quick=50, thorough=120))
@given(
    log=logs(ODD_NAMES),
    place=st.floats(0, 1),
    length=st.one_of(st.none(), st.integers(1, 12)),
    cut=st.one_of(st.just(0), st.integers(1, 200)),
    committed=st.booleans(),
    headers=st.booleans(),
    limit=st.sampled_from([1, 2, 1_000]),
    nbytes=st.sampled_from([1, 300, 1 << 20]),
    window=st.sampled_from([1, 33, 150, 5_000, WINDOW]),
)
def test_the_rows_are_those_that_were_written(
    log: list[Batch],
    place: float,
    length: int | None,
    cut: int,
    committed: bool,
    headers: bool,
    limit: int,
    nbytes: int,
    window: int,
) -> None:
    """Any position, end, limits, last batch cut short, isolation, pieces: the same rows, the same end, the same fault."""
    position = min(log[0].base + int(place * (log[-1].next - log[0].base)), log[-1].next - 1)
    first = next(index for index, batch in enumerate(log) if batch.next > position)
    data = b"".join(map(encode, log[first:]))
    data = data[: max(1, len(data) - cut)]
    ends = accumulate(len(encode(batch)) for batch in log[first:])
    there = [batch for batch, stop in zip(log[first:], ends, strict=True) if stop <= len(data)]
    end = NO_END if length is None else position + length
    aborted = aborted_in(log) if committed else None
    rows, after, fault = visible_rows(there, position, end, aborted=aborted, headers=headers)
    found = Read(
        data, position, end, aborted=aborted, high_watermark=log[-1].next, limit=limit, nbytes=nbytes,
        by=decoder(headers=headers, window=window, by=in_pieces),
    )  # fmt: skip
    assert found.rows == rows
    assert (found.position, found.fault) == (after, fault)
    if length is None and not fault:
        assert found.ahead == (after, 3 if after > position else -1)


def test_transactions_that_end_in_another_order() -> None:
    """A broker lists aborted transactions by their ends: the one that began first may come last, or be the last to end."""
    log = [
        Batch(0, (Record(0, value=b"a0"),), attributes=TRANSACTIONAL, producer=1),
        Batch(1, (Record(0, value=b"b0"),), attributes=TRANSACTIONAL, producer=2),
        marker(2, 2, ABORT),
        Batch(3, (Record(0, value=b"a1"),), attributes=TRANSACTIONAL, producer=1),
        marker(4, 1, ABORT),
        Batch(5, (Record(0, value=b"seen"),), attributes=TRANSACTIONAL, producer=1),
        marker(6, 1, COMMIT),
    ]
    assert aborted_in(log) == [(2, 1), (1, 0)]
    found = Read(b"".join(map(encode, log)), aborted=aborted_in(log))
    assert ([row[2] for row in found.rows], found.position) == ([b"seen"], 7)


def test_headers_of_a_row_that_never_ended_are_nobodys() -> None:
    """A record that fails at its second header, behind batches without rows: its first header isn't the next row's."""
    bad = Record(0, value=b"v", headers=((b"stray", b"1"), (b"\xff", b"2")))
    data = encode(marker(0, 1, ABORT)) + encode(Batch(1, (bad,)))
    by = decoder()
    part = by.part(data, 0, len(data), "t", 7, 0, NO_END, -1, None)
    event = part.take(10, 1 << 20)
    assert event is not None
    assert event[0] == _native.RECORDS
    del part
    whole_one = Record(0, value=b"w", headers=((b"own", b"3"),))
    assert Read(encode(Batch(0, (whole_one,))), by=by).rows[0][5] == [("own", b"3")]


def test_varints_of_all_lengths() -> None:
    """Times up to ten bytes, offsets up to five."""
    for time in (0, -1, 63, 64, -(2**31), 2**31, 2**62, -(2**63) // 1000, -(2**62)):
        records = tuple(Record(offset, time) for offset in (0, 127, 2**14, 2**21, 2**28, 2**31 - 1))
        batch = Batch(2**40, records, first_timestamp=-time, max_timestamp=0)
        found = Read(encode(batch), 2**40)
        assert [row[0] - 2**40 for row in found.rows] == [record.offset for record in records]
        assert {row[3] for row in found.rows} == {0}
        assert found.position == 2**40 + 2**31


def test_what_grew_while_the_broker_read_its_log() -> None:
    """A broker notes its log's end before it reads: records behind that end are records, unless some lie between."""
    data = b"".join(encode(Batch(at, (Record(0), Record(1)))) for at in (4, 6, 8))
    assert len(Read(data, 4, high_watermark=6).rows) == 6
    assert len(Read(data, 6 - 1, high_watermark=4).rows) == 5
    gone = encode(Batch(4, (Record(0), Record(1)))) + encode(Batch(600, (Record(0),)))
    found = Read(gone, 4, high_watermark=6)
    assert ([row[0] for row in found.rows], found.fault, found.position) == ([4, 5], "error", 6)


@pytest.mark.parametrize("window", [33, WINDOW])
def test_a_range_ends_where_it_is_to(window: int) -> None:
    """From any record to any other, within batches and at their edges: each once, and none of behind the end."""
    for position in range(15):
        data = b"".join(encode(batch) for batch in THREE if batch.next > position)
        for end in range(position + 1, 16):
            found = Read(data, position, end, by=decoder(window=window, by=in_pieces))
            assert [row[0] for row in found.rows] == list(range(position, end))
            assert found.position == -(-end // 5) * 5


# --- damage ---------------------------------------------------------------------------------------

THREE = [
    Batch(at, tuple(Record(n, n, b"k%d" % n, b"v" * 20, ((b"h", None),)) for n in range(5)), codec=codec)
    for at, codec in ((0, 0), (5, CODECS.index("zstd")), (10, 0))
]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_every_flipped_bit_behind_the_checksum_is_an_error(which: int) -> None:
    """Whatever bit of a batch's checksum or of what it covers: what lies before comes, then the error."""
    parts = [encode(batch) for batch in THREE]
    before = [row for batch in parts[:which] for row in Read(batch, THREE[parts.index(batch)].base).rows]
    for place in range(17, len(parts[which])):
        changed = bytearray(parts[which])
        changed[place] ^= 1 << place % 8
        found = Read(b"".join([*parts[:which], changed, *parts[which + 1 :]]), high_watermark=15)
        assert (found.rows, found.fault, found.number) == (before, "error", KafkaError._BAD_MSG)
        assert found.position == THREE[which].base


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (framed(replace(THREE[1], codec=0), b"".join(map(encoded, THREE[1].records))[:-1]), KafkaError._BAD_MSG),
        (framed(THREE[1], b"nonsense"), KafkaError._BAD_COMPRESSION),
        (framed(THREE[1], b""), KafkaError._BAD_MSG),
        (framed(replace(THREE[1], codec=SNAPPY), b"\xff\xff\xff\xff\x0f"), KafkaError._BAD_COMPRESSION),
        (framed(replace(THREE[1], codec=SNAPPY), b"\0"), KafkaError._BAD_MSG),
        (encode(replace(THREE[1], codec=0, attributes=6)), KafkaError._BAD_MSG),
        (
            encode(THREE[1])[:8] + b"\xff" * 4 + encode(THREE[1])[12:],
            KafkaError._BAD_MSG,
        ),  # its length, which no checksum covers
        (encode(THREE[1])[:8] + b"\0" * 4 + encode(THREE[1])[12:], KafkaError._BAD_MSG),
        (encode(replace(THREE[1], count=-1)), KafkaError._BAD_MSG),
        (encode(replace(THREE[1], count=6)), KafkaError._BAD_MSG),
        (encode(replace(THREE[1], last=3)), KafkaError._BAD_MSG),
        (encode(replace(THREE[1], last=-1)), KafkaError._BAD_MSG),
        (encode(replace(THREE[1], base=-7)), KafkaError._BAD_MSG),
        (encode(replace(THREE[1], base=2**63 - 5)), KafkaError._BAD_MSG),
        (encode(replace(THREE[1], base=0)), KafkaError._BAD_MSG),
        (encode(replace(THREE[1], records=(Record(-1),), last=4)), KafkaError._BAD_MSG),
        (encode(replace(THREE[1], records=(Record(2**62),), last=4)), KafkaError._BAD_MSG),
        (encode(replace(THREE[1], records=(Record(0, 2**62),), first_timestamp=2**62)), KafkaError._BAD_MSG),
        (b"\0\0\0\0\0\0\0\5\0\0\0\x16" + b"\0" * 4 + b"\1" + b"\0" * 17, KafkaError._NOT_IMPLEMENTED),
    ],
)
def test_what_a_right_checksum_does_not_make_whole(broken: bytes, code: int) -> None:
    """Broken batches under right checksums, and messages of the older format: an error each time, no record behind it."""
    parts = [encode(THREE[0]), broken, encode(THREE[2])]
    found = Read(b"".join(parts))
    assert [row[0] for row in found.rows] == list(range(found.position))
    assert 5 <= found.position <= 10  # the broken batch may have begun well
    assert (found.fault, found.number) == ("error", code)


def test_a_message_of_the_older_format_alone() -> None:
    """It is shorter than a batch's header, and no batch that has been cut short."""
    message = b"\0\0\0\0\0\0\0\5\0\0\0\x16" + b"\0" * 4 + b"\1" + b"\0" * 17
    found = Read(message, 5)
    assert (found.fault, found.number, found.ahead) == ("error", KafkaError._NOT_IMPLEMENTED, (5, -1))


def test_records_that_are_missing_are_not_passed_over() -> None:
    """A batch that decompresses to nothing has no records, but says that it has."""
    for nothing in (pa.py_buffer(b""), b"", memoryview(b""), pa.allocate_buffer(0)):
        by = decoder(headers=False, by=lambda *_, n=nothing: n)
        assert Read(encode(THREE[1]) + encode(THREE[2]), 5, by=by).fault == "error"


def test_a_hidden_batch_is_not_decompressed() -> None:
    """What nobody may see need not be readable."""
    hidden = Batch(0, (Record(0),), attributes=TRANSACTIONAL | 6, producer=1)
    found = Read(encode(hidden) + encode(marker(1, 1, ABORT)), aborted=[(1, 0)])
    assert (found.rows, found.position, found.fault) == ([], 2, "")


@settings(max_examples=of_tier(quick=50, thorough=120))
@given(
    log=logs(),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=5),
    headers=st.booleans(),
    repair=st.booleans(),
    window=st.sampled_from([1, 40, WINDOW]),
    position=st.sampled_from([0, 3, 2**62]),
)
def test_no_bytes_do_harm(
    log: list[Batch], changes: list[Any], headers: bool, repair: bool, window: int, position: int
) -> None:
    """Changed bytes anywhere, also under a checksum made right again: rows that Arrow finds whole, or an error."""
    data = bytearray(b"".join(map(encode, log)))
    for place, byte in changes:
        data[int(place * (len(data) - 1))] = byte
    if repair:
        head = bytes(data)
        data = bytearray(b"".join(summed(each) for each in whole(head) if len(each) >= HEAD.size))
    by = decoder(headers=headers, window=window, by=in_pieces)
    Read(bytes(data), position, by=by, aborted=aborted_in(log))


@given(data=st.binary(max_size=200), codec=st.integers(0, 7))
def test_no_payload_does_harm(data: bytes, codec: int) -> None:
    """Anything as records or as their compressed form."""
    Read(framed(Batch(0, count=3, last=9, codec=codec), data))
    Read(data)


# --- the rest -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "sum_"),
    [  # RFC 3720, B.4; and Kafka's own Crc32CTest
        (b"", 0),
        (b"123456789", 0xE3069283),
        (b"\0" * 32, 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_checksums(data: bytes, sum_: int) -> None:
    """Both ways."""
    assert (_native.crc32c(data, False), _native.crc32c(data, True)) == (sum_, sum_)


@given(data=st.binary(max_size=100), offset=st.integers(0, 9))
def test_both_checksums_are_equal(data: bytes, offset: int) -> None:
    """Also of bytes that begin anywhere."""
    view = memoryview(data)[offset:]
    assert _native.crc32c(view, False) == _native.crc32c(view, True)


def test_a_part_lies_in_its_response() -> None:
    """Bounds are checked; the response stays while a part is there, and a closed one can't be read."""
    by, data = decoder(), bytearray(encode(THREE[0]))
    for start, end in ((-1, 5), (5, 4), (0, len(data) + 1)):
        with pytest.raises(ValueError, match="outside"):
            by.part(data, start, end, "t", 7, 0, NO_END, -1, None)
    for wrong in (7, [1], [(1, "x")]):
        with pytest.raises((TypeError, SystemError)):
            by.part(data, 0, len(data), "t", 7, 0, NO_END, -1, wrong)  # type: ignore[arg-type]
    part = by.part(data, 0, len(data), "t", 7, 0, NO_END, -1, None)
    with pytest.raises(BufferError):
        data.append(0)
    del part
    data.append(0)


def test_what_python_raises_goes_through() -> None:
    """An exception of a callback is the caller's, and the next part is read as if nothing was."""

    def fail(*_: Any) -> Any:
        raise LookupError("mine")

    failing = _native.Decoder(fields_of(KAFKA_ROW), fail, unpack, LARGEST, WINDOW)
    for by, batch in ((failing, THREE[0]), (decoder(by=fail), THREE[1])):
        data = encode(batch)
        for _ in range(2):
            with pytest.raises(LookupError, match="mine"):
                by.part(data, 0, len(data), "t", 7, batch.base, NO_END, -1, None).take(10, 1 << 20)


def test_nothing_is_kept() -> None:
    """Memory stays where it is, whatever parts are read, half read, or broken."""
    records = tuple(Record(n, key=b"k", value=b"v" * 900, headers=((b"h", b"w" * 90),)) for n in range(1_000))
    datas = [encode(Batch(0, records, codec=codec)) for codec in range(5)]
    datas += [datas[0][:-1] + b"\0", framed(Batch(0, count=9, last=9, codec=4), b"nonsense")]
    before, by = pa.total_allocated_bytes(), decoder()

    def read(times: int) -> int:
        for _ in range(times):
            for data in datas:
                part = by.part(data, 0, len(data), "t", 7, 0, NO_END, -1, [(1, 2)])
                part.take(300, 1 << 20)
                part.take(300, 1 << 20)
        return int(psutil.Process().memory_info().rss)

    settled = read(5)
    assert read(30) - settled < 30 << 20  # thirty times seven megabytes, were they kept
    assert pa.total_allocated_bytes() - before < 1 << 16
