"""What is inside of records, at the seam of sources: rows, offsets and sizes that fit, and what is bad costs itself."""

from __future__ import annotations

import io
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from typing import Any

import fastavro
import pytest

from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.fetch import value_decoding
from sparkcohort.runtime.shell.kafka.fetch.events import Event, PartitionError, Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.values import json_decoder
from sparkcohort.runtime.values.columns import Columns, Field, kafka_row
from sparkcohort.runtime.values.formats import Decoding, decoding
from tests.kit.mock import MockCluster
from tests.kit.produce import FLUSH_TIMEOUT_S, producer
from tests.kit.registry import serving
from tests.kit.waiting import wait_until

NO_END = 2**63 - 1
PARTITIONS = 4
SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}


def columns(made: Decoding) -> Columns:
    """Value, offset, and the bytes of what is bad."""
    row = kafka_row(value=made._replace(corrupt_column="bad"))
    return tuple(each for each in row if each.field in (Field.VALUE, Field.OFFSET, Field.CORRUPT_VALUE))


def fill(mock: MockCluster, topic: str, records: list[bytes | None]) -> list[TopicPartition]:
    """The records in each partition."""
    mock.create_topic(topic, PARTITIONS)
    client = producer(mock.bootstrap)
    for record in records:
        for number in range(PARTITIONS):
            client.produce(topic, record, partition=number)
    assert client.flush(FLUSH_TIMEOUT_S) == 0
    return [TopicPartition(topic, number) for number in range(PARTITIONS)]


def opened(mock: MockCluster, made: Decoding, threads: int = 1) -> RecordSource:
    """A source of these values."""
    conf = {"bootstrap.servers": mock.bootstrap, "log_level": 0}
    return RecordSource(conf, columns=columns(made), threads=threads)


def polled(source: RecordSource, ends: dict[TopicPartition, int], limit: int) -> Iterator[Event]:
    """All events until the positions are at these ends."""
    stands = dict.fromkeys(ends, 0)
    found: list[Event] = []

    def all_there() -> bool:
        for event in chain.from_iterable(iter(lambda: source.poll(0.1, limit), [])):
            found.append(event)
            if isinstance(event, Records):
                assert event.next_offset > stands[event.tp]
                stands[event.tp] = event.next_offset
            if stands == ends:
                break
        return stands == ends

    wait_until(all_there, 30, "the ends of the logs")
    return iter(found)


def rows(events: Iterator[Event]) -> dict[TopicPartition, list[dict[str, Any]]]:
    """The rows by partition; each batch's runs and bytes are those of its rows."""
    found: dict[TopicPartition, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if isinstance(event, Records) and event.batch is not None and event.runs is not None:
            event.batch.validate(full=True)
            offsets = event.batch.column("offset").to_pylist()
            assert [event.runs.offset_of(row) for row in range(len(offsets))] == offsets
            assert abs(event.batch.nbytes - event.nbytes) <= 64 * event.batch.num_columns + event.batch.nbytes // 2
            found[event.tp] += event.batch.to_pylist()
    return found


MIXED: list[bytes | None] = [
    [b'{"id": %d}' % n, None, b'{"id": ', b'{"id": "x"}'][n % 4 if n % 50 > 40 else 0] for n in range(2_000)
]


@pytest.mark.parametrize("threads", [1, 4])
def test_every_row_is_where_it_was(mock_broker: MockCluster, topic: str, threads: int) -> None:
    """Whoever decodes beside whom: in order, null where it is bad or was null, its bytes beside it."""
    tps = fill(mock_broker, topic, MIXED)
    with closing(opened(mock_broker, decoding("value", {"format": "json", "schema": "id BIGINT"}), threads)) as source:
        source.assign(dict.fromkeys(tps, (0, NO_END)))
        found = rows(polled(source, dict.fromkeys(tps, len(MIXED)), 300))
        bad = (
            sum(record is not None and b"}" not in record for record in MIXED),
            sum(record is not None and b'"x"' in record for record in MIXED),
        )
        assert source.malformed == {(topic, "syntax"): bad[0] * PARTITIONS, (topic, "wrong_type"): bad[1] * PARTITIONS}

    def expected(offset: int, record: bytes | None) -> dict[str, Any]:
        good = record is not None and b"}" in record and b'"x"' not in record
        value = {"id": offset} if good else {"id": None} if record is not None and b'"x"' in record else None
        return {"value": value, "offset": offset, "bad": None if good else record}

    assert found == {tp: [expected(*each) for each in enumerate(MIXED)] for tp in tps}


def test_what_is_dropped_leaves_no_hole_in_positions(mock_broker: MockCluster, topic: str) -> None:
    """Offsets of the rows that stay are theirs, and batches of nothing but bad records move the position."""
    records = [*MIXED, *[b"bad"] * 500]
    tps = fill(mock_broker, topic, records)
    made = decoding("value", {"format": "json", "schema": "id BIGINT", "mode": "dropmalformed"})
    with closing(opened(mock_broker, made)) as source:
        source.assign(dict.fromkeys(tps, (0, NO_END)))
        found = rows(polled(source, dict.fromkeys(tps, len(records)), 100))
    kept = [n for n, record in enumerate(records) if record is None or (b"}" in record and b'"x"' not in record)]
    assert {tp: [row["offset"] for row in each] for tp, each in found.items()} == dict.fromkeys(tps, kept)


def test_failfast_ends_its_partition_only(mock_broker: MockCluster, topic: str) -> None:
    """Nothing of it comes behind the error, until it is assigned anew; the others flow."""
    mock_broker.create_topic(topic, 2)
    client = producer(mock_broker.bootstrap)
    for number, record in enumerate([b'{"id": 1}', b"bad", b'{"id": 2}', b'{"id": 3}']):
        client.produce(topic, b'{"id": 0}', partition=0)
        client.produce(topic, record, partition=1)
        assert client.flush(FLUSH_TIMEOUT_S) == 0, number
    good, bad = TopicPartition(topic, 0), TopicPartition(topic, 1)
    made = decoding("value", {"format": "json", "schema": "id BIGINT", "mode": "failfast"})
    with closing(opened(mock_broker, made)) as source:
        events: list[Event] = []

        def have(enough: Callable[[], bool], what: str) -> None:
            def asked() -> bool:
                events.extend(source.poll(0.1))
                return enough()

            wait_until(asked, 30, what)

        source.assign({good: (0, NO_END), bad: (0, NO_END)})
        have(lambda: any(isinstance(event, PartitionError) for event in events), "the error")
        (error,) = [event for event in events if isinstance(event, PartitionError)]
        assert (error.tp, error.offset, error.code) == (bad, 1, 0)
        assert f"{topic} partition 1 offset 1: the value can't be read as json" in str(error.error)
        client.produce(topic, b'{"id": 4}', partition=0)
        assert client.flush(FLUSH_TIMEOUT_S) == 0
        have(lambda: any(isinstance(each, Records) and each.next_offset == 5 for each in events), "the other's rows")
        assert len([event for event in events if isinstance(event, PartitionError)]) == 1
        events.clear()
        source.assign({bad: (2, NO_END)})
        have(
            lambda: any(isinstance(each, Records) and each.tp == bad and each.next_offset == 4 for each in events),
            "more",
        )
        found = rows(iter(events))
    assert [row["value"]["id"] for row in found[bad]] == [2, 3]


def test_records_wait_for_a_registry_that_is_away(mock_broker: MockCluster, topic: str) -> None:
    """Nothing is decoded to garbage, nothing is lost, and the reason is told to whoever asks why nothing comes."""
    with serving() as registry:
        schema_id = registry.register("s", SCHEMA)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, SCHEMA, {"id": 7})
        tps = fill(mock_broker, topic, [b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()] * 10)
        made = decoding("value", {"format": "avro", "schema": str(SCHEMA).replace("'", '"')})
        given = {"schema.registry.url": registry.url, "schema.registry.timeout.ms": "200"}
        with closing(opened(mock_broker, made._replace(registry=tuple(given.items())))) as source:
            registry.status = 503
            source.assign(dict.fromkeys(tps, (0, NO_END)))
            wait_until(lambda: not source.poll(0.1) and "registry" in source.last_error, 30, "the reason")
            registry.status = 0
            found = rows(polled(source, dict.fromkeys(tps, 10), 100))
    assert {tp: [row["value"] for row in each] for tp, each in found.items()} == dict.fromkeys(tps, [{"id": 7}] * 10)


def test_only_those_wait_whose_schema_is_not_there(mock_broker: MockCluster, topic: str) -> None:
    """What has a schema flows, also in a partition that waits, up to the first record that has none."""
    with serving() as registry:
        known, late = (registry.register(name, {**SCHEMA, "name": name}) for name in ("Known", "Late"))
        mock_broker.create_topic(topic, 2)
        client = producer(mock_broker.bootstrap)

        def write(schema_id: int, partition: int, number: int) -> None:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, SCHEMA, {"id": number})
            client.produce(topic, b"\0" + schema_id.to_bytes(4, "big") + out.getvalue(), partition=partition)
            assert client.flush(FLUSH_TIMEOUT_S) == 0

        good, waits = TopicPartition(topic, 0), TopicPartition(topic, 1)
        write(known, 0, 0)
        write(known, 1, 0)
        made = decoding("value", {"format": "avro", "schema": str(SCHEMA).replace("'", '"')})
        given = {"schema.registry.url": registry.url, "schema.registry.timeout.ms": "60000"}
        with closing(opened(mock_broker, made._replace(registry=tuple(given.items())))) as source:
            stands, events = dict.fromkeys((good, waits), 0), list[Event]()

            def until(ends: dict[TopicPartition, int]) -> None:
                def there() -> bool:
                    for event in source.poll(0.1):
                        events.append(event)
                        if isinstance(event, Records):
                            assert stands[event.tp] < event.next_offset
                            stands[event.tp] = event.next_offset
                    return stands == ends

                wait_until(there, 30, f"positions {ends}")

            source.assign(dict.fromkeys((good, waits), (0, NO_END)))
            until({good: 1, waits: 1})
            registry.held.clear()
            write(late, 1, 1)
            wait_until(lambda: not source.poll(0.1) and f"schema {late}" in source.last_error, 30, "the reason")
            for number in range(1, 5):
                write(known, 0, number)
                write(known, 1, 10 + number)
                until({good: 1 + number, waits: 1})
            registry.held.set()
            until({good: 5, waits: 6})
    found = {tp: [row["value"]["id"] for row in each] for tp, each in rows(iter(events)).items()}
    assert found == {good: [0, 1, 2, 3, 4], waits: [0, 1, 11, 12, 13, 14]}


def test_what_becomes_more_than_a_column_holds(
    mock_broker: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is read in pieces that fit; a record that fits nowhere is bad, and costs itself."""
    monkeypatch.setattr(json_decoder.JsonValues.__init__, "__kwdefaults__", {"native": True, "most": 3_000})
    records: list[bytes | None] = [
        b'{"text": "%s"}' % (b"x" * (5_000 if n in (7, 100, 101) else 200)) for n in range(300)
    ]
    tps = fill(mock_broker, topic, records)
    with closing(opened(mock_broker, decoding("value", {"format": "json", "schema": "text STRING"}), 2)) as source:
        source.assign(dict.fromkeys(tps, (0, NO_END)))
        found = rows(polled(source, dict.fromkeys(tps, len(records)), 300))
        assert source.malformed == {(topic, "too_large"): 3 * PARTITIONS}
    expected = [
        {
            "value": None if len(record or b"") > 5_000 else {"text": "x" * 200},
            "offset": n,
            "bad": record if len(record or b"") > 5_000 else None,
        }
        for n, record in enumerate(records)
    ]
    assert found == dict.fromkeys(tps, expected)


@pytest.mark.parametrize("error", [MemoryError(), KeyError("secret")], ids=repr)
def test_whatever_a_decoder_raises_costs_one_record(
    mock_broker: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The batch is halved down to it; what it has is not shown."""
    whole = json_decoder.JsonValues.decode

    def decode(values: json_decoder.JsonValues, column: Any) -> Any:
        if b'{"id": 13}' in column.to_pylist():
            raise error
        return whole(values, column)

    monkeypatch.setattr(json_decoder.JsonValues, "decode", decode)
    records: list[bytes | None] = [b'{"id": %d}' % number for number in range(100)]
    tps = fill(mock_broker, topic, records)
    with closing(opened(mock_broker, decoding("value", {"format": "json", "schema": "id BIGINT"}), 2)) as source:
        source.assign(dict.fromkeys(tps, (0, NO_END)))
        found = rows(polled(source, dict.fromkeys(tps, len(records)), 300))
        assert source.malformed == {(topic, "decoder_failed"): PARTITIONS}
    for each in found.values():
        assert [row["value"] for row in each] == [None if n == 13 else {"id": n} for n in range(100)]
        assert [row["bad"] for row in each if row["bad"]] == [b'{"id": 13}']


def test_a_machine_without_memory_is_no_bad_record(
    mock_broker: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That may change in a second: the reader tries again, and the record is read."""

    def decode(_values: json_decoder.JsonValues, _column: Any) -> Any:
        raise MemoryError

    tps = fill(mock_broker, topic, [b'{"id": 1}'])
    with closing(opened(mock_broker, decoding("value", {"format": "json", "schema": "id BIGINT"}))) as source:
        with monkeypatch.context() as short:
            short.setattr(json_decoder.JsonValues, "decode", decode)
            short.setattr(value_decoding, "_memory_is_left", bool)
            source.assign(dict.fromkeys(tps, (0, NO_END)))
            with pytest.raises(MemoryError):
                rows(polled(source, dict.fromkeys(tps, 1), 300))
        source.assign(dict.fromkeys(tps, (0, NO_END)))
        found = rows(polled(source, dict.fromkeys(tps, 1), 300))
        assert source.malformed == {}
    assert [row["value"] for each in found.values() for row in each] == [{"id": 1}] * PARTITIONS


@pytest.mark.parametrize("threads", [1, 2])
def test_what_one_poll_makes_is_bounded(
    mock_broker: MockCluster, topic: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is fetched again: every row comes once, in order, and no poll brings much more than is allowed."""
    monkeypatch.setattr(value_decoding, "MOST_MADE", 20_000)
    monkeypatch.setattr(json_decoder.JsonValues.__init__, "__kwdefaults__", {"native": True, "most": 3_000})
    records: list[bytes | None] = [b'{"text": "%s"}' % (b"%03d" % n * 60) for n in range(300)]
    tps = fill(mock_broker, topic, records)
    largest = 0
    with closing(
        opened(mock_broker, decoding("value", {"format": "json", "schema": "text STRING"}), threads)
    ) as source:
        poll = source.poll

        def watched(timeout_s: float, limit: int = 10_000) -> list[Event]:
            nonlocal largest
            events = poll(timeout_s, limit)
            largest = max(largest, sum(each.nbytes for each in events if isinstance(each, Records)))
            return events

        monkeypatch.setattr(source, "poll", watched)
        source.assign(dict.fromkeys(tps, (0, NO_END)))
        found = rows(polled(source, dict.fromkeys(tps, len(records)), 10_000))
    expected = [f"{n:03d}" for n in range(300)]
    assert {tp: [row["value"]["text"][:3] for row in found[tp]] for tp in tps} == dict.fromkeys(tps, expected)
    assert 20_000 < largest < 20_000 + threads * 10_000


def test_one_line_tells_of_a_reason_and_none_of_a_value(
    mock_broker: MockCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """However many records are bad."""
    caplog.set_level(logging.WARNING, "sparkcohort.values")
    tps = fill(mock_broker, topic, [b'{"secret": ', b'{"id": "secret"}'] * 200)
    with closing(opened(mock_broker, decoding("value", {"format": "json", "schema": "id BIGINT"}))) as source:
        source.assign(dict.fromkeys(tps, (0, NO_END)))
        rows(polled(source, dict.fromkeys(tps, 400), 50))
    said = [record.getMessage() for record in caplog.records if record.name == "sparkcohort.values"]
    assert len(said) == 2
    assert not [line for line in said if "secret" in line]
    assert [line for line in said if f"topic {topic} partition " in line] == said
