r"""Decides how a checkpoint is repaired: which files are removed or written, and what is lost.  ``cohort checkpoint repair`` writes.

>>> whole = "v1\n{}\n" + '{"t":{"0":7}}'
>>> [mend.path for mend in mend_files(Files({2: whole, 3: ""}, {2: 'v1\n{"nextBatchWatermarkMs":0}'}, '{"id":"q"}'))]
['offsets/3']
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sparkcohort.cli.checkpoint import logs
from sparkcohort.cli.checkpoint.logs import BrokenLog, UnknownVersion

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
        return logs.read_commit(text, "commits")
    except BrokenLog:
        return ""
