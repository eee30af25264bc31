r"""Decides how a checkpoint is repaired: which files are removed or written, and what is lost.  ``cohort checkpoint repair`` writes.

>>> whole = "v1\n{}\n" + '{"t":{"0":7}}'
>>> [mend.path for mend in mend_files(Files({2: whole, 3: ""}, {2: 'v1\n{"nextBatchWatermarkMs":0}'}, '{"id":"q"}'))]
['offsets/3']
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparkcohort.cli.checkpoint import logs
from sparkcohort.cli.checkpoint.logs import BrokenLog, KafkaEnds, Source, UnknownVersion
from sparkcohort.cli.checkpoint.positions import (
    EXPIRED,
    MISSING,
    PAST_END,
    RECREATED,
    KafkaPositions,
    PartitionComparison,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition

DOUBLES: Final = "a sink that takes a batch's number for its contents (as the file sink and Delta do) may skip it, others get its records again"


@dataclass(frozen=True, slots=True)
class Files:
    """The texts of the last files of both logs by their numbers, and of ``metadata`` (None: there is none).

    ``fresh_id`` is a new id for a query whose id is lost.
    """

    offsets: Mapping[int, str]
    commits: Mapping[int, str]
    metadata: str | None
    stateful: bool = False
    fresh_id: str = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class Mend:
    """One file to be removed (``text`` None) or written; ``fault`` is what is wrong with it.

    ``loss``: what ``--accept-loss`` gives up ("": nothing).  ``refused``: why it can't be repaired ("": it can).
    """

    path: str
    text: str | None
    fault: str
    effect: str
    loss: str = ""
    refused: str = ""


def mend_files(files: Files) -> list[Mend]:
    """The repairs of files that Spark can't read, and of logs that don't match.  Raises UnknownVersion."""
    mends = [*_metadata(files), *_last_offsets(files), *_earlier_offsets(files), *_commits(files)]
    return list({mend.path: mend for mend in reversed(mends)}.values())[::-1]


def read_problem(text: str, name: str) -> str:
    """Why a file of a log can't be read; "": it can.  Raises UnknownVersion."""
    try:
        if name.startswith("offsets/"):
            logs.read_offsets(text, name)
        elif name.startswith("commits/"):
            logs.read_commit(text, name)
        else:
            logs.query_id(text, name)
    except UnknownVersion:
        raise
    except BrokenLog as error:
        return str(error)
    return ""


def _metadata(files: Files) -> list[Mend]:
    """Spark (4.2) doesn't start with a broken ``metadata`` or, if there are logs, without it."""
    if files.metadata is None:
        fault = "metadata is not there" if files.offsets or files.commits else ""
    else:
        fault = read_problem(files.metadata, "metadata")
    effect = (
        "the query gets a new id; a sink that remembers batches by the query's id (Delta) doesn't know the old ones"
    )
    return [Mend("metadata", json.dumps({"id": files.fresh_id}, separators=(",", ":")), fault, effect)] if fault else []


def _last_offsets(files: Files) -> list[Mend]:
    """If the last batch planned can't be read, it is planned again, from the end of the one before."""
    last = max(files.offsets, default=-1)
    fault = read_problem(files.offsets[last], f"offsets/{last}") if last >= 0 else ""
    if not fault:
        return []
    path = f"offsets/{last}"
    if last - 1 in files.offsets and read_problem(files.offsets[last - 1], f"offsets/{last - 1}"):
        refused = f"offsets/{last - 1} can't be read either: its start is unknown; start with a new checkpoint (the group's commits are its start)"
        return [Mend(path, None, fault, "", refused=refused)]
    if last > 0 and last - 1 not in files.offsets:
        return [Mend(path, None, fault, "", refused=f"offsets/{last - 1}, its start, is not there")]
    effect = f"batch {last} is planned again from the end of batch {last - 1}; {DOUBLES}"
    if last == 0:
        effect = "batch 0 is planned again from the query's start: the group's commits, or startingOffsets"
    mends = [Mend(path, None, fault, effect)]
    if last in files.commits:
        loss = f"batch {last} was done: its records are delivered again" if files.stateful else ""
        mends.append(Mend(f"commits/{last}", None, "a commit without its offsets", f"batch {last} runs again", loss))
    return mends


def _earlier_offsets(files: Files) -> list[Mend]:
    """Spark reads the file before the last one, too, even if it needs nothing of it."""
    last = max(files.offsets, default=-1)
    if last < 1 or read_problem(files.offsets[last], f"offsets/{last}"):
        return []
    path = f"offsets/{last - 1}"
    fault = read_problem(files.offsets[last - 1], path) if last - 1 in files.offsets else f"{path} is not there"
    if not fault:
        return []
    if last in files.commits and not read_problem(files.commits[last], f"commits/{last}"):
        effect = f"it becomes a copy of offsets/{last}: Spark wants it there, and reads on from batch {last}"
        return [Mend(path, files.offsets[last], fault, effect)]
    refused = f"it is the start of batch {last}, which is in flight, and unknown; start with a new checkpoint (the group's commits are its start)"
    return [Mend(path, None, fault, "", refused=refused)]


def _commits(files: Files) -> list[Mend]:
    planned = max(files.offsets, default=-1)
    mends: list[Mend] = []
    for number, text in sorted(files.commits.items()):
        path = f"commits/{number}"
        fault = read_problem(text, path)
        if number > planned:
            fault = "a commit without its offsets: Spark fails with CONCURRENT_STREAM_LOG_UPDATE"
            effect = f"batch {number} is planned again from the end of batch {planned}: its records are delivered again; {DOUBLES}"
            loss = f"batch {number} was done, and in the output" if files.stateful else ""
            mends.append(Mend(path, None, fault, effect, loss))
        elif fault and number == max(files.commits):
            mends.append(_broken_commit(files, number, planned, fault))
    return mends


def _broken_commit(files: Files, number: int, planned: int, fault: str) -> Mend:
    path = f"commits/{number}"
    if number < planned:
        # Spark plans a batch only after the one before is committed.  If that commit is gone, it starts with a warning.
        checkpoint_ids = any(_version(text) not in ("", "v1") for text in files.commits.values())
        refused = "it has the ids of the state's checkpoints, which no other file has" if checkpoint_ids else ""
        return Mend(path, None, fault, f"nothing: batch {planned}, in flight, runs as planned", refused=refused)
    return Mend(
        path, None, fault, f"batch {number} runs again with the same records: a sink that is keyed by it gets no double"
    )


def _version(text: str) -> str:
    """The version of a file; "": it can't be read."""
    try:
        return logs.read_commit(text, "commits").version
    except BrokenLog:
        return ""


# --- offsets that Kafka's logs don't have ----------------------------------------------------------


def mend_positions(files: Files, rows: Iterable[PartitionComparison], brokers: KafkaPositions) -> list[Mend]:
    """The repairs that move a checkpoint to offsets that Kafka's logs have.  The files have to be readable."""
    bad: dict[Source, list[PartitionComparison]] = {}
    for row in rows:
        if row.fails:
            bad.setdefault(row.source, []).append(row)
    last = max(files.offsets, default=-1)
    numbers = [last] if last in files.commits else [last - 1, last]
    mends: list[Mend] = []
    for number in numbers if bad else ():
        name = f"offsets/{number}"
        if number not in files.offsets:
            refused = "batch 0 is in flight, whose start is not in the checkpoint: start with a new checkpoint"
            return [Mend(f"offsets/{last}", None, words(next(iter(bad.values()))), "", refused=refused)]
        mends.append(_move_offsets(files.offsets[number], name, bad, brokers, stateful=files.stateful))
    return [mend for mend in mends if mend.refused or mend.text != files.offsets[int(mend.path.rpartition("/")[2])]]


def _move_offsets(
    text: str,
    name: str,
    bad: Mapping[Source, Sequence[PartitionComparison]],
    brokers: KafkaPositions,
    *,
    stateful: bool,
) -> Mend:
    entry = logs.read_offsets(text, name)
    every = [row for rows in bad.values() for row in rows]
    for source, rows in bad.items():
        line = entry.sources.get(source)  # None in the batch before that in which a source begins
        old = logs.source_of(line, name)
        if old is None or line is None:
            continue
        ends, ids = _new_ends(old, rows, brokers)
        if not ends:
            refused = f"nothing would be left of source {source}: none of its partitions exists; create the topic, or start with a new checkpoint"
            return Mend(name, None, words(rows), "", refused=refused)
        text = logs.rewrite_source(text, source, logs.as_line(ends, ids, line))
    state = "; what state was made of them stays as it is, so aggregates lack these records" if stateful else ""
    return Mend(name, text, words(every), effects(every), f"{costs(every)}{state}")


def _new_ends(
    old: KafkaEnds, rows: Sequence[PartitionComparison], brokers: KafkaPositions
) -> tuple[dict[TopicPartition, int], dict[str, str]]:
    ends, ids = dict(old.ends), dict(old.ids)
    for row in rows:
        tp = TopicPartition(row.topic, row.partition)
        if row.verdict == MISSING:
            ends.pop(tp, None)
        elif row.verdict == EXPIRED and tp in ends:
            ends[tp] = max(ends[tp], brokers.starts[tp])
        elif row.verdict == RECREATED or (row.verdict == PAST_END and row.topic not in ids):
            ends[tp] = brokers.starts[tp]
        elif row.verdict == PAST_END:  # the same topic, truncated: new records follow on its end
            ends[tp] = min(ends.get(tp, brokers.ends[tp]), brokers.ends[tp])
        if row.verdict == RECREATED and row.topic in ids:
            ids[row.topic] = brokers.ids[row.topic]
    return ends, {topic: ids[topic] for topic in ids if any(tp.topic == topic for tp in ends)}


def words(rows: Sequence[PartitionComparison]) -> str:
    """The partitions by what is wrong with them, in words.

    >>> words([PartitionComparison(0, "t", n, 5, None, 8, 9, None, 8, 9, 1, 3, None, EXPIRED) for n in range(7)])
    'lost to retention: t-0, t-1, t-2, t-3, t-4 and 2 more'
    """
    parts = []
    for verdict in sorted({row.verdict for row in rows}):
        names = [f"{row.topic}-{row.partition}" for row in rows if row.verdict == verdict]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        parts.append(f"{verdict}: {', '.join(names[:5])}{more}")
    return "; ".join(parts)


def effects(rows: Sequence[PartitionComparison]) -> str:
    """Where they are read from afterwards, in words."""
    targets = {
        EXPIRED: "to the log's start",
        MISSING: "out of the checkpoint",
        RECREATED: "to the new topic's start",
        PAST_END: "to the log's end where it is the same topic, else to its start",
    }
    return "moved " + ", ".join(targets[verdict] for verdict in sorted({row.verdict for row in rows}))


def costs(rows: Sequence[PartitionComparison]) -> str:
    """What is lost, in words, with counts where they are known."""
    counted = sum(row.lost or 0 for row in rows if row.verdict in (EXPIRED, PAST_END))
    unknown = [row for row in rows if row.lost is None]
    parts = [f"{counted} offsets are gone"] if counted else []
    if unknown:
        parts.append(
            f"what {len(unknown)} partitions of a deleted topic had behind the checkpoint is gone; how much is unknown"
        )
    return "; ".join(parts)


def read_entries(files: Files) -> dict[int, logs.OffsetEntry]:
    """The offsets that can be read, by batch."""
    entries: dict[int, logs.OffsetEntry] = {}
    for number, text in files.offsets.items():
        try:
            entries[number] = logs.read_offsets(text, f"offsets/{number}")
        except BrokenLog:
            continue
    return entries
