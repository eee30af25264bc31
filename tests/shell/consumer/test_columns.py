"""Every source, and the prefetcher behind it, delivers the columns that are asked for as the full rows have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.buffers import CHUNK_OVERHEAD
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.kafka.fetch import arrow_rows
from sparkcohort.runtime.shell.kafka.fetch.events import Records
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.values.columns import KAFKA_ROW, KAFKA_ROW_WITH_HEADERS, Columns, kafka_row
from sparkcohort.runtime.values.formats import decoding
from tests.kit.buffered import buffered
from tests.kit.mock import MockCluster
from tests.kit.produce import producer
from tests.kit.record_sources import by_librdkafka
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

KINDS = (RecordSource, by_librdkafka)
RECORDS = 300
FLUSHED = (99, 203, RECORDS - 1)
CHUNKS = 20  # at most; a producer that waits cuts where it likes
TP = TopicPartition("mixed", 0)
SOME = st.permutations(KAFKA_ROW_WITH_HEADERS).flatmap(lambda all_: st.integers(1, 8).map(lambda n: tuple(all_[:n])))


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """A topic of records of all kinds."""
    with MockCluster() as mock:
        mock.create_topic(TP.topic, 1)
        client = producer(mock.bootstrap)
        for n in range(RECORDS):
            key = None if n % 3 else b"k" * (n % 5)
            value = None if n % 7 == 0 else b"v" * n
            headers: list[tuple[str, str | bytes | None]] = [("h", b"1"), ("h", None)] if n % 4 == 0 else []
            client.produce(TP.topic, value, key, TP.partition, headers=headers, timestamp=1_000 + n)
            if n in FLUSHED:  # it is at least so many chunks, whatever the producer's own time says
                assert client.flush(10) == 0
        yield mock


def conf(mock: MockCluster) -> dict[str, Any]:
    """The settings of a source."""
    return {"bootstrap.servers": mock.bootstrap, "log_level": 0}


def read(source: RecordSource, end: int = RECORDS) -> list[Records]:
    """All runs of records up to the end, each batch validated."""
    found: list[Records] = []
    source.assign({TP: (0, end)})

    def over() -> bool:
        found.extend(event for event in source.poll(0.1) if isinstance(event, Records) and event.batch is not None)
        return bool(found) and found[-1].next_offset >= end

    wait_until(over, 30, "the end of the log")
    for each in found:
        assert each.batch is not None
        each.batch.validate(full=True)
    return found


def table(found: list[Records], columns: Columns) -> pa.Table:
    """The rows, in the declared schema."""
    return pa.Table.from_batches([each.batch for each in found], arrow_rows.schema(columns))


@pytest.fixture(scope="module")
def full(cluster: MockCluster) -> pa.Table:
    """All rows with all columns."""
    with closing(KINDS[0](conf(cluster), columns=KAFKA_ROW_WITH_HEADERS)) as source:
        rows = table(read(source), KAFKA_ROW_WITH_HEADERS)
    assert rows.column("offset").to_pylist() == list(range(RECORDS))
    return rows


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=of_tier(quick=6, thorough=12))
@given(columns=SOME)
def test_any_columns_are_those_of_the_full_rows(
    kind: Any, cluster: MockCluster, full: pa.Table, columns: Columns
) -> None:
    """In any order, value by value; the offsets are known without their column, and bytes are those of the columns."""
    with closing(kind(conf(cluster), columns=columns)) as source:
        found = read(source)
    rows = table(found, columns)
    assert rows.equals(full.select([column.name for column in columns]))
    assert sum(each.batch.num_rows for each in found if each.batch) == RECORDS
    at = 0
    for each in found:
        assert each.batch is not None
        assert each.runs is not None
        assert [*each.runs] == [(at, 0)]
        at += each.batch.num_rows
        own = sum(each.batch.column(place).nbytes for place, column in enumerate(columns) if column.name != "topic")
        assert own <= each.nbytes + 64 * len(columns)
        assert each.nbytes <= own + 64 * len(columns)


@pytest.mark.parametrize("kind", KINDS)
def test_strings_are_the_same_bytes(kind: Any, mock_broker: MockCluster) -> None:
    """As Spark's cast has them: null is null, and what is no UTF-8 stays as it is."""
    string = decoding("value", {"format": "string"})
    columns = kafka_row(value=string)[1:2] + kafka_row(key=string)[:1]
    texts = [None, b"", "ü€𝄞".encode(), b"\xff\xc0\x80", b"{}" * 50]
    client = producer(mock_broker.bootstrap)
    for text in texts:
        client.produce("texts", text, text, 0)
    assert client.flush(10) == 0
    with closing(kind(conf(mock_broker), columns=columns)) as source:
        source.assign({TopicPartition("texts", 0): (0, len(texts))})
        found: list[Any] = []

        def over() -> bool:
            found.extend(event for event in source.poll(0.1) if isinstance(event, Records) and event.batch is not None)
            return bool(len(texts) == sum(event.batch.num_rows for event in found))

        wait_until(over, 20, "the records")
    assert found[0].batch.schema.types == [pa.string(), pa.string()]
    for name in ("key", "value"):
        arrays = [event.batch.column(name).view(pa.binary()) for event in found]
        assert pa.chunked_array(arrays).to_pylist() == texts


@pytest.mark.parametrize("columns", [KAFKA_ROW[1:2], KAFKA_ROW[5:6] + KAFKA_ROW[:1], KAFKA_ROW_WITH_HEADERS])
def test_a_prefetcher_cuts_its_chunks_without_their_offsets(
    cluster: MockCluster, full: pa.Table, columns: Columns
) -> None:
    """Ranges that begin and end within a chunk: exactly their rows, their bytes told, and no more held than the columns'."""
    with closing(Prefetcher(conf(cluster), columns=columns)) as prefetcher:
        prefetcher.assign({TP: 0})
        wait_until(lambda: buffered(prefetcher)[TP].position == RECORDS, 20, "the end of the log")
        held = buffered(prefetcher)[TP].nbytes
        got, sizes = list[pa.RecordBatch](), 0
        for plan, (start, end) in enumerate([(0, 1), (1, 130), (130, 131), (131, RECORDS)]):
            steps = list(prefetcher.serve([Range(*TP, start, end)], [start], plan))
            batches = [step.batch for step in steps if step.batch is not None]
            assert sum(batch.num_rows for batch in batches) == end - start
            assert [len(step.sizes) for step in steps] == [len(step.positions) for step in steps]
            told = sum(sum(step.sizes) for step in steps)
            spare = 0 if end - start == 1 else CHUNKS * len(columns)  # each part's bits of nulls are whole bytes
            assert 0 <= told - sum(batch.nbytes for batch in batches) <= spare
            got, sizes = got + batches, sizes + told
    rows = pa.Table.from_batches(got, arrow_rows.schema(columns))
    assert rows.equals(full.select([column.name for column in columns]))
    assert held <= sizes + CHUNKS * CHUNK_OVERHEAD
