"""What ``cohort checkpoint`` prints."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Final

from sparkcohort.cli.checkpoint import logs
from sparkcohort.cli.checkpoint.folder import Folder
from sparkcohort.cli.checkpoint.logs import BrokenLog, KafkaEnds, OffsetEntry, Source, source_of
from sparkcohort.cli.checkpoint.positions import PartitionComparison
from sparkcohort.cli.checkpoint.repairs import Mend, read_problem
from sparkcohort.cli.views import View, duration, view_of
from sparkcohort.runtime.errors import CohortError

BATCHES: Final = ("BATCH", "STATE", "PLANNED", "AGE", "FORMAT", "SOURCES", "PARTITIONS", "RECORDS")
OFFSETS: Final = ("BATCH", "SOURCE", "FORMAT", "TOPIC", "PARTITION", "OFFSET", "TOPIC-ID")
DIFF: Final = (
    *("SOURCE", "TOPIC", "PARTITION", "CHECKPOINT", "PLANNED-TO", "LOG-START", "LOG-END", "COMMITTED"),
    *("RESTART-FROM", "RECORDS", "LOST", "GROUP", "VERDICT"),
)
MENDS: Final = ("FILE", "DO", "WHY", "EFFECT", "LOSS")


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """One batch of the offset log, and whether the commit log has it; ``trouble``: why Spark can't read its files."""

    number: int
    committed: bool
    entry: OffsetEntry | None
    sources: Mapping[Source, KafkaEnds | None]
    records: int | None
    trouble: str


def batches(folder: Folder, last: int) -> list[PlannedBatch]:
    """The last batches, oldest first.  Raises CohortError: a file can't be read at all."""
    planned, done = folder.logs["offsets"], folder.logs["commits"]
    numbers = sorted({*planned, *(number for number in done if number > max(planned, default=-1))})
    rows: list[PlannedBatch] = []
    for number in numbers[-last - 1 :]:
        previous = rows[-1].sources if rows and rows[-1].number == number - 1 else {}
        rows.append(_batch(folder, number, number in planned, number in done, previous))
    return rows[-last:]


def _batch(
    folder: Folder, number: int, planned: bool, done: bool, previous: Mapping[Source, KafkaEnds | None]
) -> PlannedBatch:
    entry, wrong = None, ""
    name = f"offsets/{number}"
    if planned:
        try:
            entry = logs.read_offsets(folder.read(name), name)
        except BrokenLog as error:
            wrong = str(error)
    else:
        wrong = f"commits/{number} is there without {name}"
    if done:
        text = folder.read(f"commits/{number}")
        try:
            wrong = wrong or read_problem(text, f"commits/{number}")
        except BrokenLog as error:
            wrong = str(error)
    sources = {source: source_of(line, name) for source, line in entry.sources.items()} if entry else {}
    return PlannedBatch(number, done, entry, sources, _records(previous, sources), wrong)


def _records(previous: Mapping[Source, KafkaEnds | None], current: Mapping[Source, KafkaEnds | None]) -> int | None:
    """How many offsets a batch spans; None: the batch before is unknown, or a source begins in this one."""
    if not previous or not current.keys() <= previous.keys():
        return None
    pairs = [(old, new) for source, new in current.items() if (old := previous[source]) and new]
    return sum(end - old.ends.get(tp, end) for old, new in pairs for tp, end in new.ends.items())


def title(folder: Folder) -> tuple[str, ...]:
    """The lines above the table: the whole checkpoint."""
    planned, done = folder.logs["offsets"], folder.logs["commits"]
    last, committed = (max(files, default=None) for files in (planned, done))
    try:
        query = logs.query_id(folder.read("metadata"), "metadata") if folder.exists("metadata") else "none"
    except CohortError as error:
        query = str(error)
    age = folder.age_s()
    lines = [
        f"checkpoint {folder.place}",
        f"query id {query}; {'stateful' if folder.stateful else 'no state'}; last written {duration(age * 1000) + ' ago' if age is not None else 'at an unknown time'}",
    ]
    if planned:
        first = min(planned)
        gap = (
            f"; batches before {first} were removed by Spark (spark.sql.streaming.minBatchesToRetain)" if first else ""
        )
        lines.append(f"offsets {first} to {last}, commits to {'none' if committed is None else committed}{gap}")
    if last is not None and (committed is None or committed < last):
        lines.append(f"batch {last} is in flight: planned and not committed; a restart runs it with these very ends")
    return tuple(lines)


def as_view(batches: Sequence[PlannedBatch]) -> View:
    """A row a batch."""
    rows = []
    for batch in batches:
        state = "broken" if batch.trouble else "committed" if batch.committed else "in flight"
        timestamp_ms = batch.entry.metadata.get("batchTimestampMs") if batch.entry else None
        planned = (
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(timestamp_ms / 1000))
            if isinstance(timestamp_ms, int) and 0 <= timestamp_ms < 2**45
            else None
        )
        age = duration(max(time.time() * 1000 - timestamp_ms, 0)) if planned and isinstance(timestamp_ms, int) else None
        forms = ",".join(each.form if each else "other" for each in batch.sources.values())
        count = sum(len(each.ends) for each in batch.sources.values() if each)
        rows.append((batch.number, state, planned, age, forms or None, len(batch.sources), count, batch.records))
    return View(BATCHES, tuple(rows))


def offsets(batches: Sequence[PlannedBatch]) -> View:
    """A row a partition of the last batch; if that is in flight, of the one before, too."""
    listed = [batch for batch in batches if batch.entry][-1 if batches and batches[-1].committed else -2 :]
    rows = [
        (batch.number, place, each.form, tp.topic, tp.partition, offset, each.ids.get(tp.topic))
        for batch in listed
        for place, each in batch.sources.items()
        if each
        for tp, offset in sorted(each.ends.items())
    ]
    return View(OFFSETS, tuple(rows))


def differences(rows: Sequence[PartitionComparison]) -> View:
    """A row a partition; JSON also has the meaning of the group's offset."""
    objects = ({**asdict(row), "fails": row.fails, "meaning": row.meaning} for row in rows)
    notes = sorted(
        {f"group {(row.group or '').split(' ')[0]}: {row.meaning}" for row in rows if row.group not in (None, "equal")}
    )
    return view_of(DIFF, objects, {"PLANNED-TO": itemgetter("planned")}, notes=tuple(notes))


def restart(rows: Sequence[PartitionComparison]) -> str:
    """One line: what a restart does."""
    records = sum(row.records or 0 for row in rows)
    flight = sum(max((row.planned or 0) - (row.checkpoint or 0), 0) for row in rows if row.planned is not None)
    first = f", first the {flight} of the batch in flight" if flight else ""
    return f"a restart goes on: {records} offsets of {len(rows)} partitions to read by now{first}; nothing is lost"


def mends(files: Sequence[Mend]) -> View:
    """A row a file."""
    rows = [
        (
            *(mend.path, "refused" if mend.refused else "write" if mend.text is not None else "remove", mend.fault),
            *(mend.refused or mend.effect, mend.loss or None),
        )
        for mend in files
    ]
    return View(MENDS, tuple(rows))
