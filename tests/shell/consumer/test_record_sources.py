"""All sources at their seam: the same events for the same records, whatever these are; nothing kept, nothing mixed up."""

from __future__ import annotations

import logging
import struct
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import Any

import psutil
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import blocking_client
from sparkcohort.runtime.shell.kafka.fetch import arrow_rows
from sparkcohort.runtime.shell.kafka.fetch.events import EndOfLog, MalformedRecordError, PartitionError, Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS
from tests.kit.mock import MockCluster
from tests.kit.odd_headers import write_header_key
from tests.kit.produce import produce, producer
from tests.kit.record_sources import by_librdkafka
from tests.kit.scripted_broker import ScriptedBroker, fetched
from tests.kit.scripted_broker import partition as share
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

NO_END = 2**63 - 1
KINDS = (RecordSource, by_librdkafka)
ALL = pytest.mark.parametrize("kind", KINDS)
Kind = Callable[..., RecordSource]


def conf(mock: MockCluster, **more: Any) -> dict[str, Any]:
    """The settings of a source."""
    return {"bootstrap.servers": mock.bootstrap, "log_level": 0, **more}


def table(
    source: RecordSource, ends: Mapping[TopicPartition, int], limit: int = 10_000
) -> dict[TopicPartition, pa.Table]:
    """Read until every partition's log is at its end; checks positions, schemas and sizes on the way."""
    batches: dict[TopicPartition, list[pa.RecordBatch]] = {tp: [] for tp in ends}
    stands = dict.fromkeys(ends, 0)

    def all_there() -> bool:
        for event in chain.from_iterable(iter(lambda: source.poll(0.1, limit), [])):
            assert isinstance(event, Records | EndOfLog), event
            if isinstance(event, Records):
                assert event.next_offset > stands[event.tp]
                stands[event.tp] = event.next_offset
                if event.batch is not None:
                    event.batch.validate(full=True)
                    assert event.batch.schema.equals(schema_of_batch(event.batch), check_metadata=True)
                    own = event.batch.nbytes - event.batch.column("topic").nbytes
                    assert own <= event.nbytes + 64 * event.batch.num_columns
                    assert event.nbytes <= own + 64 * event.batch.num_columns
                    batches[event.tp].append(event.batch)
            if stands == dict(ends):
                break
        return stands == dict(ends)

    wait_until(all_there, 30, "the ends of the logs")
    return {tp: pa.Table.from_batches(found) for tp, found in batches.items() if found}


def until(source: RecordSource, enough: Callable[[list[Any]], bool], what: str, limit: int = 10_000) -> list[Any]:
    """Poll until there are enough events; returns them all."""
    events: list[Any] = []

    def polled() -> bool:
        events.extend(source.poll(0.1, limit))
        return enough(events)

    wait_until(polled, 20, what)
    return events


def schema_of_batch(batch: pa.RecordBatch) -> pa.Schema:
    """The declared schema."""
    return arrow_rows.schema(KAFKA_ROW_WITH_HEADERS if "headers" in batch.schema.names else KAFKA_ROW)


SIZES = st.one_of(st.none(), st.integers(0, 40), st.sampled_from([63, 64, 65, 4_095, 4_096, 4_097, 100_000]))
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
HEADERS = st.one_of(st.none(), st.lists(st.tuples(TEXTS, st.one_of(st.none(), st.binary(max_size=9))), max_size=5))
RECORDS = st.lists(st.tuples(st.integers(0, 1), SIZES, SIZES, HEADERS, st.integers(1, 2**53)), min_size=1, max_size=80)


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """A mock cluster for many topics."""
    with MockCluster() as mock:
        yield mock


@settings(max_examples=of_tier(quick=6, thorough=15))
@given(
    records=RECORDS,
    limit=st.sampled_from([1, 7, 10_000]),
    batch_bytes=st.sampled_from([1, 500, 8 << 20]),
)
def test_any_records_come_as_they_were_written(
    cluster: MockCluster, records: list[Any], limit: int, batch_bytes: int
) -> None:
    """Nulls, empty and large values, doubled and null headers: both sources give what was produced, in the schema."""
    topic = f"any-{uuid.uuid4()}"
    cluster.create_topic(topic, 2)
    client = producer(cluster.bootstrap)
    written: dict[int, list[Any]] = {0: [], 1: []}
    for partition, *sizes, headers, milliseconds in records:
        key, value = (None if size is None else bytes([size % 251]) * size for size in sizes)
        client.produce(topic, value, key, partition, headers=headers or [], timestamp=milliseconds)
        pairs = [{"key": name, "value": said} for name, said in headers or []] or None
        written[partition].append((key, value, milliseconds * 1000, pairs))
    assert client.flush(10) == 0
    ends = {TopicPartition(topic, partition): len(rows) for partition, rows in written.items() if rows}
    for kind in KINDS:
        source = kind(conf(cluster), columns=KAFKA_ROW_WITH_HEADERS, batch_bytes=batch_bytes)
        source.assign(dict.fromkeys(ends, (0, NO_END)))
        found = table(source, ends, limit)
        source.close()
        for tp, rows in found.items():
            times = rows.column("timestamp").cast(pa.int64())
            shown = [rows.column("key"), rows.column("value"), times, rows.column("headers")]
            assert list(zip(*(column.to_pylist() for column in shown), strict=True)) == written[tp.partition]
            assert rows.column("offset").to_pylist() == list(range(ends[tp]))
            assert set(rows.column("topic").to_pylist()) == {topic}
            assert set(rows.column("partition").to_pylist()) == {tp.partition}
            assert set(rows.column("timestampType").to_pylist()) == {0}


@ALL
def test_what_lies_behind_the_end_only_moves_the_position(mock_broker: MockCluster, topic: str, kind: Kind) -> None:
    """Records at and behind a span's end are no rows; the position comes to the end at least, the log's end is told."""
    produce(mock_broker.bootstrap, topic, 500)
    source, tp = kind(conf(mock_broker), columns=KAFKA_ROW), TopicPartition(topic, 0)
    source.assign({tp: (7, 30)})
    rows: list[int] = []
    positions: list[int] = []
    ends: list[int] = []

    def at_the_end() -> bool:
        for event in source.poll(0.1):
            if isinstance(event, Records):
                rows.extend(event.batch.column("offset").to_pylist() if event.batch else [])
                positions.append(event.next_offset)
            elif isinstance(event, EndOfLog):
                ends.append(event.offset)
        return bool(ends)

    wait_until(at_the_end, 20, "the log's end")
    source.close()
    assert (rows, ends) == (list(range(7, 30)), [500])
    assert 30 <= positions[-1] <= 500


@ALL
def test_what_was_assigned_anew_starts_there(mock_broker: MockCluster, topic: str, kind: Kind) -> None:
    """What was queued of an earlier assignment never shows in the next one, also of a partition given up meanwhile."""
    produce(mock_broker.bootstrap, topic, 4_000, partitions=2)
    source, tp, other = (
        kind(conf(mock_broker), columns=KAFKA_ROW),
        TopicPartition(topic, 0),
        TopicPartition(topic, 1),
    )
    for start in (0, 1_500, 3, 1_999):
        source.assign({tp: (start, NO_END), other: (0, NO_END)})
        events = until(source, lambda seen: any(event.tp == tp for event in seen), "a record", 900)
        first = next(event for event in events if event.tp == tp)
        assert isinstance(first, Records)
        assert first.batch is not None
        assert first.batch.column("offset")[0].as_py() == start
        source.unassign([tp, other, TopicPartition("never", 1)])
        assert source.poll(0) == []
    source.close()


@ALL
def test_a_record_that_no_row_can_hold(mock_broker: MockCluster, topic: str, kind: Kind) -> None:
    """It is its partition's error, by offset; the other partition flows, and nothing of the bad one follows."""
    client = producer(mock_broker.bootstrap)
    mock_broker.create_topic(topic, 2)
    for at in range(6):
        client.produce(topic, b"v", None, 0, timestamp=2**62 if at == 3 else 1)
        client.produce(topic, b"v", None, 1, timestamp=1)
    client.flush(10)
    source = kind(conf(mock_broker), columns=KAFKA_ROW)
    bad, good = TopicPartition(topic, 0), TopicPartition(topic, 1)
    source.assign({bad: (0, NO_END), good: (0, NO_END)})
    events = until(source, lambda seen: sum(not isinstance(event, Records) for event in seen) >= 2, "the error")
    source.close()
    errors = [event for event in events if isinstance(event, PartitionError)]
    assert [event.tp for event in errors] == [bad]
    assert isinstance(errors[0].error, MalformedRecordError)
    assert f"{topic} partition 0 offset 3 " in str(errors[0].error)
    assert max((e.next_offset for e in events if isinstance(e, Records) and e.tp == bad), default=0) <= 3
    assert [e.next_offset for e in events if isinstance(e, Records) and e.tp == good][-1] == 6


@pytest.mark.parametrize("key", [b"\xff", b"\xed\xa0\x80"])
def test_header_keys_that_are_no_text(mock_broker: MockCluster, topic: str, key: bytes) -> None:
    """What Python doesn't decode as UTF-8, our own client doesn't either; without headers the rows come."""
    with pytest.raises(UnicodeDecodeError):
        key.decode()
    write_header_key(mock_broker.bootstrap, topic, key)
    produce(mock_broker.bootstrap, topic, 1)
    tp = TopicPartition(topic, 0)
    for kind in KINDS:
        source = kind(conf(mock_broker), columns=KAFKA_ROW_WITH_HEADERS)
        source.assign({tp: (0, NO_END)})
        events = until(source, bool, "an event")
        source.close()
        found = next(event for event in events if isinstance(event, PartitionError))
        assert f"{topic} partition 0 offset 0 is not valid UTF-8" in str(found.error)
    plain = RecordSource(conf(mock_broker), columns=KAFKA_ROW)
    plain.assign({tp: (0, NO_END)})
    assert table(plain, {tp: 2})[tp].num_rows == 2
    plain.close()


def test_settings_that_are_refused() -> None:
    """As confluent-kafka's own client: a KafkaException of _INVALID_ARG that names the setting."""
    for setting in ({"no.such.setting": "1"}, {"fetch.min.bytes": "many"}):
        with pytest.raises(KafkaException, match=next(iter(setting))) as caught:
            by_librdkafka({"bootstrap.servers": "127.0.0.1:1", **setting}, columns=KAFKA_ROW)
        assert caught.value.args[0].code() == KafkaError._INVALID_ARG


def test_headers_count_as_bytes(mock_broker: MockCluster, topic: str) -> None:
    """Records that are nearly all headers: a poll takes about a batch's bytes of them, too."""
    produce(mock_broker.bootstrap, topic, 150, headers=[("h", b"v" * 20_000)])
    source = RecordSource(conf(mock_broker), columns=KAFKA_ROW_WITH_HEADERS, batch_bytes=200_000)
    source.assign({TopicPartition(topic, 0): (0, NO_END)})
    taken = [until(source, bool, "a record", 1)]
    while not isinstance(taken[-1][-1], EndOfLog):
        taken.append(until(source, bool, "records"))
    source.close()
    sizes = [sum(event.nbytes for event in events if isinstance(event, Records)) for events in taken]
    assert sum(sizes) > 150 * 20_000
    assert max(sizes) < 2 * 200_000


@ALL
def test_errors_and_log_lines_are_told(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    """A broker that isn't there: complaints by code, the last error in words, log lines with the client's name."""
    with caplog.at_level(logging.DEBUG, "sparkcohort.kafka"):
        # Two names: the filter of the driver's log lets no line pass twice that differs in numbers only.
        nowhere = {RecordSource: "127.0.0.2:1", by_librdkafka: "127.0.0.1:1"}[kind]
        source = kind({"bootstrap.servers": nowhere}, columns=KAFKA_ROW)
        source.assign({TopicPartition("t", 0): (0, NO_END)})

        def told() -> bool:
            assert source.poll(0.1) == []
            return bool(source.complaints and caplog.records)

        wait_until(told, 20, "a complaint and a line")
        source.close()
    assert source.complaints & {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
    assert source.last_error.startswith(("_TRANSPORT", "_ALL_BROKERS_DOWN"))
    if kind is not RecordSource:
        assert any("[rdkafka#consumer-" in record.getMessage() for record in caplog.records)
    assert {record.levelno for record in caplog.records} <= {logging.DEBUG, logging.INFO}


def test_no_complaint_quotes_a_secret() -> None:
    """librdkafka does, of the token's settings: what is kept for messages of time-outs doesn't."""
    oauth = {"sasl.mechanism": "OAUTHBEARER", "enable.sasl.oauthbearer.unsecure.jwt": True}
    secret = {"sasl.oauthbearer.config": "passphrase=hunter2"}
    where = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", "log_level": 0}
    source = by_librdkafka({**where, **oauth, **secret}, columns=KAFKA_ROW)
    wait_until(lambda: source.poll(0.1) or source.complaints, 20, "a complaint")
    source.close()
    assert KafkaError._AUTHENTICATION in source.complaints
    assert "sasl.oauthbearer.config" in source.last_error
    assert "hunter2" not in source.last_error


@ALL
def test_questions_about_the_log(mock_broker: MockCluster, topic: str, kind: Kind) -> None:
    """The log's range, whether a partition exists, and an error where no broker answers."""
    produce(mock_broker.bootstrap, topic, 12)
    mock_broker.delete_records(topic, 0, 5)
    source, tp = kind(conf(mock_broker), columns=KAFKA_ROW), TopicPartition(topic, 0)
    assert blocking_client.log_range(source.cluster, tp, 10, committed=False) == (5, 12)
    assert blocking_client.topic(source.cluster, topic, 10).leaders.keys() == {0, 1, 2, 3}
    assert source.log_end(tp) is None
    source.assign({tp: (5, NO_END)})
    until(source, lambda seen: any(isinstance(event, EndOfLog) for event in seen), "the log's end")
    assert source.log_end(tp) == 12
    mock_broker.broker_down()
    with pytest.raises(TransportError):
        blocking_client.log_range(source.cluster, tp, 0.2, committed=False)
    source.close()


def test_batches_outlive_their_source(mock_broker: MockCluster, topic: str) -> None:
    """A batch, a slice or a column of it holds what it shows, whatever has gone; all are given back in the end."""
    produce(mock_broker.bootstrap, topic, 1_000)
    before = pa.total_allocated_bytes()
    source, tp = RecordSource(conf(mock_broker), columns=KAFKA_ROW_WITH_HEADERS), TopicPartition(topic, 0)
    source.assign({tp: (0, NO_END)})
    rows = table(source, {tp: 1_000})[tp]
    source.close()
    part, column = rows.slice(500, 2), rows.column("key")
    del rows, source
    assert part.column("offset").to_pylist() == [500, 501]
    assert part.column("headers").to_pylist() == [None, None]
    assert column.to_pylist() == [b"%d" % sequence for sequence in range(1_000)]
    assert pa.total_allocated_bytes() - before < 1 << 16  # the buffers were never Arrow's own


def test_nothing_is_kept(mock_broker: MockCluster, topic: str) -> None:
    """Memory stays where it is, however often a log is read, clients are made, and batches are thrown away."""
    produce(mock_broker.bootstrap, topic, 4_000, value_bytes=1_000, headers=[("h", b"v" * 100)])
    tp = TopicPartition(topic, 0)

    def read(times: int) -> int:
        for _ in range(times):
            source = RecordSource(conf(mock_broker), columns=KAFKA_ROW_WITH_HEADERS)
            source.assign({tp: (0, NO_END)})
            table(source, {tp: 4_000})
            source.close()
        return int(psutil.Process().memory_info().rss)

    times = of_tier(quick=12, thorough=30)
    settled = read(12)
    assert read(times) - settled < times * (5 << 20) / 3  # five megabytes each time, were they kept


@ALL
def test_records_older_than_timestamps(kind: Kind) -> None:
    """Message format v0: each has Java's NO_TIMESTAMP, -1 ms, and no type; those of v1 beside them have theirs."""
    old, new = _message(0, b"\0\0" + _KEY_AND_VALUE), _message(1, b"\1\0" + struct.pack(">q", 5) + _KEY_AND_VALUE)
    sent = [old + new] * (2 if kind is RecordSource else 1)  # which has librdkafka read what it can't

    def script(asked: int) -> bytes:
        return fetched(asked, share(end=2, records=sent.pop() if sent else b""))

    with ScriptedBroker(script) as broker:
        broker.speaks[PRODUCE] = 9  # without it librdkafka takes the broker for one that knows no record batches
        source = kind(
            {"bootstrap.servers": broker.bootstrap, "log_level": 0, "fetch.wait.max.ms": 100}, columns=KAFKA_ROW
        )
        with closing(source):
            source.assign({TopicPartition("t", 0): (0, 2)})
            found = table(source, {TopicPartition("t", 0): 2})[TopicPartition("t", 0)]
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [-1_000, 5_000]
    assert found.column("timestampType").to_pylist() == [-1, 0]
    assert found.column("value").to_pylist() == [b"v", b"v"]


PRODUCE = 0
_KEY_AND_VALUE = struct.pack(">i1si1s", 1, b"k", 1, b"v")


def _message(offset: int, body: bytes) -> bytes:
    """An entry of a message set, as brokers before Kafka 0.11 wrote them."""
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
