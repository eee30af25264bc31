"""Whether a live query on this host may use a checkpoint.

A query doesn't know its checkpoint: Spark tells a source neither the folder nor the query's id.  So the topics that it
reads are compared.
"""

from __future__ import annotations

import contextlib

from sparkcohort.cli.checkpoint.folder import Folder
from sparkcohort.cli.checkpoint.logs import read_offsets, source_of
from sparkcohort.cli.checkpoint.repairs import Files, read_problem
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.rpc import connection_file


def check_not_running(folder: Folder, files: Files) -> None:
    """Raise CohortError if a live query on this host reads topics of this checkpoint, or if that is unknown."""
    if hidden := connection_file.name_hidden():
        raise CohortError(f"{folder.place}: whether a live query uses it can't be told{hidden}; or say --not-running")
    topics = {
        tp.topic
        for number, text in files.offsets.items()
        if not read_problem(text, f"offsets/{number}")
        for line in read_offsets(text, "offsets").sources.values()
        if (ends := source_of(line, "offsets"))
        for tp in ends.ends
    }
    for run in connection_file.live():
        common = sorted(topics & _read_by(run)) if topics else []
        if common:
            raise CohortError(
                f"{folder.place}: group {run.group_id} (process {run.pid}) runs on this host and reads {', '.join(common[:5])}, as this "
                "checkpoint does: stop that query, or say --not-running if it has another checkpoint"
            )


def _read_by(run: connection_file.Connection) -> set[str]:
    with contextlib.suppress(CohortError):  # it is ending, or has just ended
        return {row["topic"] for row in connection_file.fetch_status(run).get("partitions", [])}
    return set()
