"""The command ``cohort shadow``: the ranges of a running query's batches, read twice and compared; nothing is written.

Exit status 0: all that was compared is equal; 1: something differs, or nothing could be compared; 2: a mistake on the command line.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import click

from sparkcohort.runtime.checkpoint import shadow
from sparkcohort.runtime.checkpoint.logs import KafkaEnds, read_offsets, source_of
from sparkcohort.runtime.checkpoint.shadow import DIFFERS, EQUAL, GONE, RangeComparison
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.cli import printing
from sparkcohort.runtime.shell.cli.checkpoint.folder import Folder
from sparkcohort.runtime.shell.cli.checkpoint.two_readers import TwoReaders
from sparkcohort.runtime.shell.cli.client_config import client_config
from sparkcohort.runtime.shell.cli.views import View

COLUMNS: Final = ("BATCH", "SOURCE", "TOPIC", "PARTITION", "FROM", "TO", "RECORDS", "BYTES", "CRC32", "VERDICT", "WHY")
SUMMARY: Final = ("BATCH", "PARTITIONS", "RECORDS", "BYTES", "VERDICT")
KEPT: Final = 10_000
"""Rows that are printed at the end; the counts are of all."""
LOOK_S: Final = 1.0
_EPILOG: Final = """\b
Examples:
  cohort shadow /checkpoints/billing --bootstrap-server broker:9092
                              all batches that the offset log still has
  cohort shadow /checkpoints/billing --bootstrap-server broker:9092 --last 5 --partitions
  cohort shadow /checkpoints/billing --bootstrap-server broker:9092 --follow
                              and each new one, until Ctrl-C
  cohort shadow s3://bucket/billing --command-config client.properties --follow --batches 1000 --output json
"""


@dataclass(slots=True)
class Tally:
    """What was compared so far."""

    rows: deque[RangeComparison] = field(default_factory=lambda: deque(maxlen=KEPT))
    batches: int = 0
    records: int = 0
    size: int = 0
    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys((EQUAL, DIFFERS, GONE), 0))

    def add(self, rows: Sequence[RangeComparison]) -> None:
        """The ranges of one batch."""
        self.batches += 1
        for row in rows:
            self.records, self.size = self.records + row.records, self.size + row.size
            self.verdicts[row.verdict] += 1
        self.rows.extend(rows)

    def words(self) -> str:
        """All of it, in a line."""
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in self.verdicts.items())
        return f"{self.batches:,} batches, {self.records:,} records, {self.size:,} bytes; ranges: {counts}"


@click.command("shadow", epilog=_EPILOG)
@click.argument("directory", metavar="DIR")
@printing.servers
@printing.config
@click.option("--last", type=click.IntRange(1), help="Begin with the last so many batches; all that the log has.")
@click.option("--follow", is_flag=True, help="Go on with each new batch, until Ctrl-C or --batches.")
@click.option("--batches", type=click.IntRange(1), help="End after so many batches.")
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
    tally = Tally()
    with closing(TwoReaders(conf)) as readers:
        try:
            for rows in _batches(directory, readers, last, follow=follow):
                tally.add(rows)
                _tell(rows)
                if batches is not None and tally.batches >= batches:
                    break
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
    printing.print_view(_view(tally, partitions=partitions or output == "json"), output)
    click.echo(tally.words(), err=True)
    if not tally.verdicts[EQUAL] and not tally.verdicts[DIFFERS]:
        raise CohortError(
            "nothing was compared: the log has no batch whose start is known, and whose records are still there"
        )
    return 1 if tally.verdicts[DIFFERS] else 0


def _batches(directory: str, readers: TwoReaders, last: int | None, *, follow: bool) -> Iterator[list[RangeComparison]]:
    done: int | None = None
    while True:
        folder = Folder(directory)
        numbers = [each.number for each in folder.logs["offsets"]]
        new = [number for number in numbers if done is None or number > done]
        for number in new[-last:] if done is None and last else new:
            if (before := _start(folder, number, numbers)) is not None:
                yield list(_compared(folder, number, before, readers))
            done = number
        if not follow:
            return
        time.sleep(LOOK_S)


def _start(folder: Folder, number: int, numbers: Sequence[int]) -> Sequence[KafkaEnds | None] | None:
    """The sources' ends before a batch; None where nobody knows them."""
    if number - 1 in numbers:
        return _sources(folder, number - 1)
    if number or not folder.exists("sources/0/0"):
        why = "Spark has removed the one before it" if number else 'only format("kafka") writes down where it starts'
        click.echo(f"batch {number} is left out: {why}", err=True)
        return None
    return [
        shadow.initial_offsets(folder.read(f"sources/{source}/0"), f"sources/{source}/0")
        if folder.exists(f"sources/{source}/0")
        else None
        for source in range(len(_sources(folder, 0)))
    ]


def _sources(folder: Folder, number: int) -> list[KafkaEnds | None]:
    name = f"offsets/{number}"
    return [source_of(line, name) for line in read_offsets(folder.read(name), name).sources]


def _compared(
    folder: Folder, number: int, before: Sequence[KafkaEnds | None], readers: TwoReaders
) -> Iterator[RangeComparison]:
    for source, (old, new) in enumerate(zip(before, _sources(folder, number), strict=False)):
        if old is None or new is None:
            continue
        for tp in shadow.new_partitions(old, new):
            click.echo(f"batch {number}: {tp.topic}-{tp.partition} begins in it, and is left out", err=True)
        wanted = list(shadow.ranges(old, new))
        first = readers.beginnings([each.tp for each in wanted])
        gone = [each for each in wanted if first[each.tp] > each.start]
        yield from (_lost(number, source, each, first[each.tp]) for each in gone)
        there = [each for each in wanted if each not in gone]
        if there:
            ours, theirs = readers.ours(there), readers.theirs(there)
            yield from (shadow.compared(number, source, each, ours[each.tp], theirs[each.tp]) for each in there)


def _lost(number: int, source: int, wanted: Range, first: int) -> RangeComparison:
    return RangeComparison(number, source, wanted, 0, 0, 0, GONE, f"the log begins at {first}")


def _tell(rows: Sequence[RangeComparison]) -> None:
    """Progress: a line a batch, and one for each range that is not equal."""
    if rows:
        click.echo(
            f"batch {rows[0].batch}: {len(rows)} partitions, {sum(row.records for row in rows):,} records: {_worst(rows)}",
            err=True,
        )
    for row in rows:
        if row.verdict != EQUAL:
            where = f"{row.range.topic}-{row.range.partition} [{row.range.start}, {row.range.end})"
            click.echo(f"  {where} {row.verdict}: {row.why}", err=True)


def _worst(rows: Sequence[RangeComparison]) -> str:
    verdicts = {row.verdict for row in rows}
    return next(verdict for verdict in (DIFFERS, GONE, EQUAL) if verdict in verdicts)


def _view(tally: Tally, *, partitions: bool) -> View:
    rows = tuple(
        (
            row.batch,
            row.source,
            *row.range,
            row.records,
            row.size,
            f"{row.checksum:08x}",
            row.verdict,
            row.why or None,
        )
        for row in tally.rows
    )
    if partitions:
        return View(COLUMNS, rows, tuple(dict(zip(map(str.lower, COLUMNS), row, strict=True)) for row in rows))
    by_batch: dict[int, list[RangeComparison]] = {}
    for row in tally.rows:
        by_batch.setdefault(row.batch, []).append(row)
    return View(
        SUMMARY,
        tuple(
            (batch, len(of), sum(row.records for row in of), sum(row.size for row in of), _worst(of))
            for batch, of in by_batch.items()
        ),
    )
