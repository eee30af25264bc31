"""The command ``cohort shadow``: the ranges of a running query's batches, read twice and compared; nothing is written.

Exit status 0: all that was compared is equal; 1: something differs, or could not be read; 2: a mistake on the command line.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import click

from sparkcohort.cli import printing
from sparkcohort.cli.checkpoint import shadow_ranges
from sparkcohort.cli.checkpoint.folder import Folder
from sparkcohort.cli.checkpoint.logs import KafkaEnds, Source, read_offsets, source_of
from sparkcohort.cli.checkpoint.shadow_ranges import DIFFERS, EQUAL, EXPIRED, UNREAD, RangeComparison
from sparkcohort.cli.checkpoint.two_readers import TwoReaders
from sparkcohort.cli.client_config import client_config
from sparkcohort.cli.views import View
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range

COLUMNS: Final = ("BATCH", "SOURCE", "TOPIC", "PARTITION", "FROM", "TO", "RECORDS", "BYTES", "CRC32", "VERDICT", "WHY")
BY_BATCH: Final = ("BATCH", "PARTITIONS", "RECORDS", "BYTES", "VERDICT")
VERDICTS: Final = (EQUAL, EXPIRED, UNREAD, DIFFERS)
"""From the best to the worst; a batch has the worst one of its ranges."""
MOST_ROWS: Final = 10_000
"""Most rows that are printed at the end; counts are of all rows."""
LOOK_S: Final = 1.0
MOST_FAILURES: Final = 10
"""Failures in a row to read a checkpoint that is followed: some three minutes."""
MOST_PAUSE_S: Final = 30.0
_EPILOG: Final = """\b
Examples:
  cohort shadow /checkpoints/billing --bootstrap-server broker:9092
                              all batches that the offset log still has
  cohort shadow /checkpoints/billing --bootstrap-server broker:9092 --last 5 --partitions
  cohort shadow /checkpoints/billing --bootstrap-server broker:9092 --follow
                              and each new one, until Ctrl-C
  cohort shadow s3://bucket/billing --command-config client.properties --follow --batches 1000 --output json
"""


class BatchLine(NamedTuple):
    """One batch, summed up."""

    batch: int
    partitions: int
    records: int
    size: int
    verdict: str


@dataclass(slots=True)
class ShadowSummary:
    """The comparison so far: the last rows and batches, the rows that are not equal, and counts of all."""

    equal: deque[RangeComparison] = field(default_factory=lambda: deque(maxlen=MOST_ROWS))
    unequal: list[RangeComparison] = field(default_factory=list)
    lines: deque[BatchLine] = field(default_factory=lambda: deque(maxlen=MOST_ROWS))
    batches: int = 0
    records: int = 0
    size: int = 0
    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERDICTS, 0))

    def add(self, number: int, rows: Sequence[RangeComparison]) -> BatchLine:
        """Add the ranges of one batch; returns its sums."""
        for row in rows:
            self.verdicts[row.verdict] += 1
            if row.verdict == EQUAL:
                self.equal.append(row)
            elif len(self.unequal) < MOST_ROWS:
                self.unequal.append(row)
        records, size = sum(row.records for row in rows), sum(row.size for row in rows)
        worst = max((row.verdict for row in rows), key=VERDICTS.index, default=EQUAL)
        line = BatchLine(number, len(rows), records, size, worst)
        self.lines.append(line)
        self.batches, self.records, self.size = self.batches + 1, self.records + records, self.size + size
        return line

    def rows(self) -> list[RangeComparison]:
        """The rows that are kept, in order."""
        return sorted((*self.equal, *self.unequal), key=lambda row: (row.batch, row.source, row.range))

    def words(self) -> str:
        """The counts, in a line."""
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in self.verdicts.items())
        return f"{self.batches:,} batches, {self.records:,} records, {self.size:,} bytes; ranges: {counts}"


@click.command("shadow", epilog=_EPILOG)
@click.argument("directory", metavar="DIR")
@printing.servers
@printing.config
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Begin with the last N batches; default: all in the log."
)
@click.option("--follow", is_flag=True, help="Go on with each new batch, until Ctrl-C or --batches.")
@click.option("--batches", type=click.IntRange(1), metavar="N", help="End after N batches.")
@click.option("--partitions", is_flag=True, help="A row for each range, not for each batch.")
@printing.output
def shadow_command(
    directory: str,
    servers: str | None,
    config: str | None,
    last: int | None,
    follow: bool,
    batches: int | None,
    partitions: bool,
    output: str,
) -> int:
    """Read what a query's batches read, by Cohort's reader and by a plain consumer, and compare.

    DIR is the checkpoint of a query of format("kafka") or format("cohort"), which may run meanwhile. Offsets, sizes
    and checksums are compared for each batch and partition. Neither checkpoint nor group is touched.
    """
    conf = client_config(servers, config)
    summary = ShadowSummary()
    try:
        with closing(TwoReaders(conf)) as readers:
            for number, rows in _batches(directory, readers, last, follow=follow):
                _print_progress(summary.add(number, rows), rows)
                if batches is not None and summary.batches >= batches:
                    break
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    finally:  # an error after hours must not lose what was compared
        if summary.batches:
            printing.print_view(_view(summary, partitions=partitions or output == "json"), output)
            click.echo(summary.words(), err=True)
    if not summary.verdicts[EQUAL] and not summary.verdicts[DIFFERS]:
        raise CohortError(
            "nothing was compared: the log has no batch whose start is known, and whose records are still there"
        )
    return 1 if summary.verdicts[DIFFERS] or summary.verdicts[UNREAD] else 0


Sources = Mapping[Source, KafkaEnds | None]
"""The ends of a query's sources; None for one that reads no Kafka, or has no offset yet."""


class _FailedLooks:
    """Failures in a row to read the checkpoint.  Retried, ever farther apart, if it is followed and was read once."""

    def __init__(self, *, follow: bool) -> None:
        self._follow = follow
        self._was_read = False
        self._count = 0

    def wait_or_raise(self, error: CohortError) -> None:
        """Print the first failure and wait for the next try.  Raises the error if there is none."""
        if not (self._follow and self._was_read) or self._count >= MOST_FAILURES:
            raise error
        if not self._count:
            printing.print_stderr(f"{error}; it is tried again")
        time.sleep(min(LOOK_S * 2**self._count, MOST_PAUSE_S))
        self._count += 1

    def record_success(self) -> None:
        """End the row of failures."""
        if self._count:
            click.echo("the checkpoint is read again", err=True)
        self._was_read, self._count = True, 0


def _batches(
    directory: str, readers: TwoReaders, last: int | None, *, follow: bool
) -> Iterator[tuple[int, list[RangeComparison]]]:
    ends: dict[int, Sources] = {}
    done, failures = -1, _FailedLooks(follow=follow)
    while True:
        try:
            folder = Folder(directory)
            for number in _planned(folder, ends, done, last):
                starts = ends.get(number - 1) or _start(folder, number, ends)
                if starts is not None and number in ends:
                    yield number, list(_compare_batch(number, starts, ends[number], readers))
                ends.pop(number - 1, None)
                done = number
        except CohortError as error:
            failures.wait_or_raise(error)
            continue
        failures.record_success()
        if not follow:
            return
        time.sleep(LOOK_S)


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
    return shadow_ranges.initial_offsets(folder.read(name), name) if folder.exists(name) else None


def _sources(folder: Folder, number: int) -> Sources | None:
    name = f"offsets/{number}"
    if not folder.exists(name):
        click.echo(f"batch {number} is left out: Spark has removed it meanwhile", err=True)
        return None
    return {source: source_of(line, name) for source, line in read_offsets(folder.read(name), name).sources.items()}


def _compare_batch(number: int, starts: Sources, ends: Sources, readers: TwoReaders) -> Iterator[RangeComparison]:
    for source, new in ends.items():
        old = starts.get(source)
        if old is None or new is None:
            if new is not None:
                click.echo(f"batch {number}: source {source} begins in it, and is left out", err=True)
            continue
        for skipped in shadow_ranges.skipped_partitions(old, new):
            printing.print_stderr(f"batch {number}: {skipped}; left out")
        yield from _read(number, source, list(shadow_ranges.ranges(old, new)), readers)


def _read(
    number: int, source: Source, ranges: Sequence[Range], readers: TwoReaders, *, one_by_one: bool = True
) -> Iterator[RangeComparison]:
    """Compare all ranges at once; if that fails, one by one, so that one bad range doesn't hide the others."""
    try:
        first = readers.beginnings([span.tp for span in ranges])
        present = [span for span in ranges if first[span.tp] <= span.start]
        cohort, plain = (readers.cohort_totals(present), readers.plain_totals(present)) if present else ({}, {})
    except CohortError as error:
        for span in ranges:
            if one_by_one:
                yield from _read(number, source, [span], readers, one_by_one=False)
            else:
                yield RangeComparison(number, source, span, 0, 0, 0, UNREAD, str(error))
        return
    for span in ranges:
        if span in present:
            yield shadow_ranges.compare_totals(number, source, span, cohort[span.tp], plain[span.tp])
        else:
            yield RangeComparison(number, source, span, 0, 0, 0, EXPIRED, f"the log begins at {first[span.tp]}")


def _print_progress(line: BatchLine, rows: Sequence[RangeComparison]) -> None:
    """Print a line for the batch, and one for each range that is not equal."""
    click.echo(f"batch {line.batch}: {line.partitions} partitions, {line.records:,} records: {line.verdict}", err=True)
    for row in rows:
        if row.verdict != EQUAL:
            place = f"{row.range.topic}-{row.range.partition} [{row.range.start}, {row.range.end})"
            printing.print_stderr(f"  {place} {row.verdict}: {row.reason}")


def _view(summary: ShadowSummary, *, partitions: bool) -> View:
    if not partitions:
        return View(BY_BATCH, tuple(summary.lines), notes=_omission(summary.batches - len(summary.lines), "batches"))
    comparisons = summary.rows()
    rows = tuple(
        (
            row.batch,
            row.source,
            *row.range,
            row.records,
            row.size,
            f"{row.checksum:08x}",
            row.verdict,
            row.reason or None,
        )
        for row in comparisons
    )
    objects = tuple(dict(zip(map(str.lower, COLUMNS), row, strict=True)) for row in rows)
    left_out = _omission(sum(summary.verdicts.values()) - len(comparisons), "ranges")
    return View(COLUMNS, rows, objects, notes=left_out, narrow=("SOURCE", "CRC32", "BYTES"))


def _omission(count: int, unit: str) -> tuple[str, ...]:
    return (f"{count:,} {unit} before these are counted below and not shown",) if count else ()
