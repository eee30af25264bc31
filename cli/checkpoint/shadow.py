"""The command ``cohort shadow``: the ranges of a running query's batches, read twice and compared; nothing is written.

They are read as a query of ``format("cohort")`` reads them, and by confluent-kafka's plain consumer, which shares no decoder,
no fetching and no rule for the end of a range with Cohort's reader.  Neither joins a group or commits.
Exit status 0: all that was compared is equal; 1: something differs, or could not be read; 2: a mistake on the command line.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import click
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Position

from sparkcohort.cli import printing
from sparkcohort.cli.checkpoint.folder import Folder
from sparkcohort.cli.checkpoint.logs import KafkaEnds, Source, read_offsets, source_of
from sparkcohort.cli.checkpoint.shadow_ranges import (
    DIFFERS,
    EQUAL,
    EXPIRED,
    UNREAD,
    RangeComparison,
    ReadTotals,
    initial_offsets,
    ranges_between,
    skipped_partitions,
)
from sparkcohort.cli.kafka_group import KafkaGroup, open_group
from sparkcohort.cli.views import View
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.fetch.range_reader import RangeReader
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.values.columns import KAFKA_ROW_WITH_HEADERS

COLUMNS: Final = ("BATCH", "SOURCE", "TOPIC", "PARTITION", "FROM", "TO", "RECORDS", "BYTES", "CRC32", "VERDICT", "WHY")
VERDICTS: Final = (EQUAL, EXPIRED, UNREAD, DIFFERS)
"""From the best to the worst; a batch has the worst one of its ranges."""
MOST_ROWS: Final = 10_000
"""The last rows that are printed at the end; counts are of all rows."""
LOOK_S: Final = 1.0
MOST_FAILURES: Final = 10
"""Failures in a row to read a checkpoint that is followed: some three minutes."""
MOST_PAUSE_S: Final = 30.0
SILENT_S: Final = 60.0
"""The longest time without a record."""
AT_ONCE: Final = 5_000
GROUP: Final = "cohort-shadow"
_KINDS: Final = {1: 0, 2: 1}
"""confluent-kafka's types of timestamps (created, appended), and Spark's; -1 for none."""
_PASSING: Final = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
_READS: Final = {
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": "10",
    "queued.max.messages.kbytes": "16384",
    "queued.min.messages": "100000",
    "log_level": "0",
}
_EPILOG: Final = """\b
Examples:
  cohort shadow /checkpoints/billing --bootstrap-server broker:9092
                              all batches that the offset log still has
  cohort shadow /checkpoints/billing --bootstrap-server broker:9092 --last 5
  cohort shadow /checkpoints/billing --bootstrap-server broker:9092 --follow
                              and each new one, until Ctrl-C
  cohort shadow s3://bucket/billing --command-config client.properties --follow --batches 1000 --output json
"""

Sources = Mapping[Source, KafkaEnds | None]
"""The ends of a query's sources; None for one that reads no Kafka, or has no offset yet."""


@click.command("shadow", epilog=_EPILOG)
@click.argument("directory", metavar="DIR")
@printing.servers
@printing.config
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Begin with the last N batches; default: all in the log."
)
@click.option("--follow", is_flag=True, help="Go on with each new batch, until Ctrl-C or --batches.")
@click.option("--batches", type=click.IntRange(1), metavar="N", help="End after N batches.")
@printing.output
def shadow_command(
    directory: str,
    servers: str | None,
    config: str | None,
    last: int | None,
    follow: bool,
    batches: int | None,
    output: str,
) -> int:
    """Read what a query's batches read, by Cohort's reader and by a plain consumer, and compare.

    DIR is the checkpoint of a query of format("kafka") or format("cohort"), which may run meanwhile. Offsets, sizes
    and checksums are compared for each batch and partition. Neither checkpoint nor group is touched.
    """
    verdicts, kept, count = Counter[str](), deque[RangeComparison](maxlen=MOST_ROWS), 0
    try:
        with closing(TwoReaders(open_group(GROUP, servers, config))) as readers:
            for number, starts, ends in _batches(directory, last, follow=follow):
                rows = list(_compare_batch(number, starts, ends, readers))
                _print_batch(number, rows)
                verdicts.update(row.verdict for row in rows)
                kept.extend(rows)
                count += 1
                if count == batches:
                    break
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    finally:  # an error after hours must not lose what was compared
        if count:
            printing.print_view(_view(kept), output)
            counts = ", ".join(f"{verdicts[verdict]:,} {verdict}" for verdict in VERDICTS)
            click.echo(f"{count:,} batches; ranges: {counts}", err=True)
    if not verdicts[EQUAL] and not verdicts[DIFFERS]:
        raise CohortError(
            "nothing was compared: the log has no batch whose start is known, and whose records are still there"
        )
    return 1 if verdicts[DIFFERS] or verdicts[UNREAD] else 0


def _print_batch(number: int, rows: Sequence[RangeComparison]) -> None:
    """Print a line for the batch, and one for each range that is not equal."""
    worst = max((row.verdict for row in rows), key=VERDICTS.index, default=EQUAL)
    records = sum(row.totals.records for row in rows)
    click.echo(f"batch {number}: {len(rows)} partitions, {records:,} records: {worst}", err=True)
    for row in rows:
        if row.verdict != EQUAL:
            place = f"{row.range.topic}-{row.range.partition} [{row.range.start}, {row.range.end})"
            printing.print_stderr(f"  {place} {row.verdict}: {row.reason}")


def _view(comparisons: Sequence[RangeComparison]) -> View:
    rows = []
    for row in comparisons:
        sums = (row.totals.records, row.totals.size, f"{row.totals.checksum:08x}")
        rows.append((row.batch, row.source, *row.range, *sums, row.verdict, row.reason or None))
    return View(COLUMNS, tuple(rows), narrow=("SOURCE", "CRC32", "BYTES"))


# --- batches of the checkpoint -------------------------------------------------------------------------


def _batches(directory: str, last: int | None, *, follow: bool) -> Iterator[tuple[int, Sources, Sources]]:
    """Each planned batch with the ends of the batch before it, and its own.

    A checkpoint that is followed, and was read once, is read again after a failure, ever farther apart.
    """
    ends: dict[int, Sources] = {}
    done, failures = -1, 0
    while True:
        try:
            folder = Folder(directory)
            for number in _planned(folder, ends, done, last):
                starts = ends.get(number - 1) or _start(folder, number, ends)
                if starts is not None and number in ends:
                    yield number, starts, ends[number]
                ends.pop(number - 1, None)
                done = number
            failures = 0
        except CohortError as error:
            if not follow or done < 0 or failures == MOST_FAILURES:
                raise
            if not failures:
                printing.print_stderr(f"{error}; it is tried again")
            failures += 1
        if not follow:
            return
        time.sleep(min(LOOK_S * 2 ** max(failures - 1, 0), MOST_PAUSE_S))


def _planned(folder: Folder, ends: dict[int, Sources], done: int, last: int | None) -> list[int]:
    """The batches after ``done``; the ends of each, and of the one before the first, are in ``ends`` afterwards."""
    numbers = [each.number for each in folder.logs["offsets"] if each.number > done]
    if done < 0 and last:
        numbers = numbers[-last - 1 :]
    # All are read at once: Spark removes the oldest file with each new batch.
    for number in numbers:
        if number not in ends and (sources := _sources(folder, number)) is not None:
            ends[number] = sources
    return numbers if done >= 0 or not last else numbers[-last:]


def _start(folder: Folder, number: int, ends: Mapping[int, Sources]) -> Sources | None:
    """The sources' ends before the first batch in the log; None: unknown."""
    if number:
        click.echo(f"batch {number} is left out: Spark has removed the one before it", err=True)
        return None
    starts = {
        source: None if source_ends is None else _initial(folder, f"sources/{source}/0")
        for source, source_ends in ends.get(0, {}).items()
    }
    if not any(starts.values()):
        click.echo('batch 0 is left out: only format("kafka") writes down where it starts', err=True)
        return None
    return starts


def _initial(folder: Folder, name: str) -> KafkaEnds | None:
    return initial_offsets(folder.read(name), name) if folder.exists(name) else None


def _sources(folder: Folder, number: int) -> Sources | None:
    name = f"offsets/{number}"
    if not folder.exists(name):
        click.echo(f"batch {number} is left out: Spark has removed it meanwhile", err=True)
        return None
    return {source: source_of(line, name) for source, line in read_offsets(folder.read(name), name).sources.items()}


# --- the two readers -----------------------------------------------------------------------------------


def _compare_batch(number: int, starts: Sources, ends: Sources, readers: TwoReaders) -> Iterator[RangeComparison]:
    for source, new in ends.items():
        old = starts.get(source)
        if old is None or new is None:
            if new is not None:
                click.echo(f"batch {number}: source {source} begins in it, and is left out", err=True)
            continue
        for skipped in skipped_partitions(old, new):
            printing.print_stderr(f"batch {number}: {skipped}; left out")
        yield from _compare_ranges(number, source, list(ranges_between(old, new)), readers)


def _compare_ranges(
    number: int, source: Source, ranges: Sequence[Range], readers: TwoReaders
) -> Iterator[RangeComparison]:
    try:
        first = readers.kafka.start_offsets([span.tp for span in ranges])
        present = [span for span in ranges if first[span.tp] <= span.start]
        cohort, plain = (readers.cohort_totals(present), readers.plain_totals(present)) if present else ({}, {})
    except CohortError as error:
        for span in ranges:
            yield RangeComparison(number, source, span, ReadTotals(), UNREAD, str(error))
        return
    for span in ranges:
        if span in present:
            reason = "; ".join(cohort[span.tp].differences(plain[span.tp]))
            verdict = DIFFERS if reason else EQUAL
            yield RangeComparison(number, source, span, cohort[span.tp], verdict, reason)
        else:
            reason = f"the log begins at {first[span.tp]}"
            yield RangeComparison(number, source, span, ReadTotals(), EXPIRED, reason)


Totals = Mapping[TopicPartition, ReadTotals]


class TwoReaders:
    """Both readers of one cluster."""

    def __init__(self, kafka: KafkaGroup) -> None:
        """Make both readers.  Raises CohortError: a client can't be made."""
        self.kafka = kafka
        # Spark's source reads uncommitted records by default; librdkafka doesn't.
        conf = {"isolation.level": "read_uncommitted", **kafka.conf, "group.id": GROUP}
        self._cohort_reader = RangeReader(conf, columns=KAFKA_ROW_WITH_HEADERS, poll_timeout_ms=int(SILENT_S * 1000))
        self._plain_consumer: Consumer = clients.new_consumer(conf, None, **_READS)

    def close(self) -> None:
        """Close both clients."""
        self._plain_consumer.close()
        self._cohort_reader.close()

    def cohort_totals(self, ranges: Sequence[Range]) -> Totals:
        """The sums of what ``format("cohort")`` delivers, one range a partition.  Raises CohortError."""
        totals = {span.tp: ReadTotals() for span in ranges}
        for tp, _, batch in self._cohort_reader.read(ranges):
            _add_batch(totals[tp], batch)
        return totals

    def plain_totals(self, ranges: Sequence[Range]) -> Totals:
        """The sums of what the plain consumer delivers.  Raises CohortError: refused, or no record in time."""
        totals, remaining = {span.tp: ReadTotals() for span in ranges}, {span.tp: span for span in ranges}
        self._plain_consumer.assign([Position(span.topic, span.partition, span.start) for span in ranges])
        try:
            deadline = time.monotonic() + SILENT_S
            while remaining and time.monotonic() < deadline:
                for message in self._plain_consumer.consume(AT_ONCE, 0.1):
                    tp, position = _position(message)
                    span = remaining.get(tp)
                    if span is None or position <= span.start:
                        continue
                    if message.error() is None:
                        deadline = time.monotonic() + SILENT_S
                        if position <= span.end:
                            _add_message(totals[tp], message)
                    # The end of the log ends a range only if it is not before the range's: a replica may be behind.
                    if position >= span.end:
                        del remaining[tp]
                        self._plain_consumer.incremental_unassign([Position(*tp)])
        except KafkaException as error:
            text = redact_text(clients.text_of(error), self.kafka.conf)
            raise CohortError(f"the plain consumer can't read: {text}") from None
        finally:
            self._plain_consumer.unassign()
        if remaining:
            names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(remaining)[:5])
            raise CohortError(f"nothing came for {SILENT_S:g} s from {names}: see cohort doctor", "REQUEST_TIMED_OUT")
        return totals


def _position(message: Message) -> tuple[TopicPartition, int]:
    """A message's partition, and the offset after it; at the end of a log (an error) that offset itself.  Raises KafkaException."""
    tp, offset = TopicPartition(str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)
    error = message.error()
    if error is None:
        return tp, offset + 1
    if error.code() != KafkaError._PARTITION_EOF and error.code() not in _PASSING:
        raise KafkaException(error)
    return tp, offset if error.code() == KafkaError._PARTITION_EOF else -1


def _add_message(totals: ReadTotals, message: Message) -> None:
    kind, at_ms = message.timestamp()
    headers: Any = message.headers() or ()
    offset = int(message.offset() or 0)
    totals.add(offset, at_ms * 1000, _KINDS.get(kind, -1), message.key(), message.value(), headers)


def _add_batch(totals: ReadTotals, batch: pa.RecordBatch | None) -> None:
    if batch is None:
        return
    columns = (batch.column(name).to_pylist() for name in ("offset", "timestampType", "key", "value", "headers"))
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    for at_us, offset, kind, key, value, headers in zip(times, *columns, strict=True):
        totals.add(offset, at_us, kind, key, value, [(each["key"], each["value"]) for each in headers or ()])
