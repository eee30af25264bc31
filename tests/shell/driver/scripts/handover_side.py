"""One driver as Spark drives it, without Spark: a reader, an offset log, a commit log and a sink, in a process to kill.

``handover_side.py FOLDER OPTIONS KILL SILENCE_MS``: KILL is a point of the hand-over (see ``Points``) and how often it is
passed before the process kills itself, as ``parked-:1``; empty for one that lives.  Ends with status 7 when handed over.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxRows

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka import handover
from sparkcohort.runtime.shell.driver.group_commits import GroupCommits
from sparkcohort.runtime.shell.driver.handover import HandoverWatch
from sparkcohort.runtime.shell.kafka.handover_client import HandoverClient
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.streaming.reader import CohortStreamReader

HANDED_OVER = 7
BATCH_S = 0.15


class Points:
    """Where a process of a hand-over may die: before (-) and after (+) what stands here."""

    def __init__(self, kill: str) -> None:
        """``kill``: a point and how often it is passed."""
        self._point, _, times = kill.partition(":")
        self._left = int(times or 1)

    def at(self, point: str) -> None:
        """Here the process is; perhaps for the last time."""
        if point == self._point:
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: type, name: str, label: Callable[..., str]) -> None:
        """Have a method pass a point before and after."""
        inner = getattr(owner, name)

        def called(*given: Any, **more: Any) -> Any:
            point = label(*given, **more)
            self.at(f"{point}-")
            result = inner(*given, **more)
            self.at(f"{point}+")
            return result

        setattr(owner, name, called)


def write(path: Path, value: object) -> None:
    """Whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(value))
    fresh.replace(path)


def latest(folder: Path) -> int:
    """The newest batch of a log, -1 for none."""
    return max((int(path.stem) for path in folder.glob("*.json")), default=-1)


class Query:
    """As MicroBatchExecution: plan, log the offsets, run, log the commit."""

    def __init__(self, folder: Path, reader: CohortStreamReader, points: Points) -> None:
        self.reader, self.points = reader, points
        self.offsets, self.commits, self.sink = (folder / name for name in ("offsets", "commits", "sink"))
        for each in (self.offsets, self.commits, self.sink):
            each.mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        """Until it is handed over, or its folder has a file ``stop``."""
        planned, done = latest(self.offsets), latest(self.commits)
        start = json.loads((self.offsets / f"{done}.json").read_text()) if done >= 0 else self.reader.initialOffset()
        if planned > done:
            start = self.batch(planned, start, json.loads((self.offsets / f"{planned}.json").read_text()))
        number = planned + 1
        while not (self.sink.parent / "stop").exists():
            end = self.reader.latestOffset(start, ReadMaxRows(40))
            self.points.at("planned")
            if end == start:
                self.idle()
                continue
            write(self.offsets / f"{number}.json", end)
            start = self.batch(number, start, end)
            number += 1

    def idle(self) -> None:
        """Until the next trigger."""
        threading.Event().wait(0.05)

    def batch(self, number: int, start: Any, end: Any) -> Any:
        """Read and write a batch; returns where the next one begins."""
        self.reader.partitions(start, end)
        self.points.at("sink-")
        threading.Event().wait(BATCH_S)
        write(self.sink / f"{number}.json", [start, end])
        self.points.at("sink+")
        write(self.commits / f"{number}.json", {})
        self.points.at("logged")
        return end


def main(folder: Path, options: dict[str, str], kill: str, silence_ms: int) -> int:
    """One process's life."""
    points = Points(kill)
    handover.SIGN_MS = silence_ms
    points.around(HandoverClient, "look", lambda *_: "look")
    points.around(HandoverClient, "write", lambda _, record: str(record.answer))
    points.around(HandoverWatch, "reach", lambda *_, **__: "reach")
    points.around(GroupCommits, "begin", lambda *_: "reserve")
    points.around(GroupCommits, "open", lambda *_, **__: "open")
    try:
        Query(folder, CohortStreamReader(parse(options)), points).run()
    except CohortError as error:
        (folder / "error").write_text(str(error))
        return HANDED_OVER if error.error == "HANDED_OVER" else 1
    return 0


if __name__ == "__main__":
    status = main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    sys.stderr.flush()
    os._exit(status)
