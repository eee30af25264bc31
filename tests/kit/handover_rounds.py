"""One hand-over between two processes against a real broker, either of which may kill itself at a drawn point.

Both are driven as Spark drives a source (``tests/shell/driver/scripts/handover_side.py``), each with its own logs and sink.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.kit.broker import Broker
from tests.kit.jars import ROOT
from tests.kit.produce import produce
from tests.kit.waiting import wait_until

SIDE = ROOT / "tests" / "shell" / "driver" / "scripts" / "handover_side.py"
RECORDS, PARTITIONS, BATCH = 1200, 2, 40
HANDED_OVER, KILLED = 7, -9
SILENCE_MS = 3000
OLD = ("heard-", "heard+", "reach-", "reach+", "parked-", "parked+", "sink-", "sink+", "logged", "planned")
NEW = (
    "look-",
    "look+",
    "asked-",
    "asked+",
    "open-",
    "open+",
    "reserve-",
    "reserve+",
    "planned",
    "sink-",
    "sink+",
    "logged",
)
REPEATED = {"sink-", "sink+", "logged", "planned", "look-", "look+"}


class HandoverRound(NamedTuple):
    """What is killed where (empty: nobody), and what came of it."""

    side: str
    point: str
    killed: bool
    doubled: int
    old_status: int


STRIDE = 7  # divides the number of neither side's steps: they are gone through, and the first few are far apart


def draw(seed: int) -> tuple[str, str]:
    """A side and a step, each in its turn; how often the step is passed before, by chance."""
    side, steps = (("old", OLD), ("new", NEW))[seed % 2]
    point = steps[seed // 2 * STRIDE % len(steps)]
    return side, f"{point}:{Random(seed).randint(1, 15) if point in REPEATED else 1}"


def play_round(broker: Broker, folder: Path, topic: str, side: str = "", point: str = "") -> HandoverRound:
    """Hand over, kill, start again, read all there is.  Raises AssertionError for what is lost, or doubled for no reason."""
    broker.admin.create_topic(topic, PARTITIONS)
    produce(broker.bootstrap, topic, RECORDS, partitions=PARTITIONS)
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "group.id": topic,
        "subscribe": topic,
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
    }
    graceful = {
        **options,
        "handover": "graceful",
        "handover.timeout.ms": "20000",
        "startingOffsets.fallback": "earliest",
    }
    started: list[subprocess.Popen[bytes]] = []
    try:
        old = _start(folder / "old", options, point if side == "old" else "")
        started.append(old)
        wait_until(lambda: _done(folder / "old") >= 2 or old.poll() is not None, 60, "two batches of the old one")
        new = _start(folder / "new", graceful, point if side == "new" else "")
        started.append(new)
        killed = False
        while not _wait_for_end(folder, old, new):
            assert new.returncode == KILLED, _words(folder)
            assert not killed, "killed twice"
            killed, new = True, _start(folder / "new", graceful, "")
            started.append(new)
        (folder / "new" / "stop").touch()
        if (
            new.wait(60) == KILLED and side == "new" and not killed
        ):  # the old one had read it all before, on a busy machine
            killed, new = True, _start(folder / "new", graceful, "")
            started.append(new)
        assert new.wait(60) == 0, _words(folder)
        old_status = old.wait(30)
        assert old_status in (HANDED_OVER, *((KILLED,) if side == "old" else ())), _words(folder)
    finally:
        for process in started:
            process.kill()
            process.wait(10)
    killed = killed or old_status == KILLED
    doubled = _check(folder, old_killed=old_status == KILLED)
    return HandoverRound(side, point, killed, doubled, old_status)


def _start(folder: Path, options: dict[str, str], kill: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "COHORT_HOME": str(folder / "home")}
    command = [sys.executable, "-P", str(SIDE), str(folder), json.dumps(options), kill, str(SILENCE_MS)]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=env)


def _done(folder: Path) -> int:
    return len(list((folder / "commits").glob("*.json")))


def _ranges(folder: Path) -> Iterator[tuple[str, int, int]]:
    for path in sorted((folder / "sink").glob("*.json"), key=lambda each: int(each.stem)):
        start, end = json.loads(path.read_text())
        for topic, partitions in end.items():
            for number, at in partitions.items():
                yield number, start[topic][number], at


def _wait_for_end(folder: Path, old: subprocess.Popen[bytes], new: subprocess.Popen[bytes]) -> bool:
    """Wait until the old one has ended and all is read; False where the new one has ended before."""

    def reached() -> bool:
        ends: dict[str, int] = {}
        for side in ("old", "new"):
            for number, _, at in _ranges(folder / side):
                ends[number] = max(ends.get(number, 0), at)
        return old.poll() is not None and sum(ends.values()) == RECORDS

    wait_until(lambda: reached() or new.poll() is not None, 60, f"the end of {folder}")
    return new.poll() is None


def _check(folder: Path, *, old_killed: bool) -> int:
    """How many records a plain sink has twice; the last batch of one that was killed at most."""
    times: dict[tuple[str, int], int] = {}
    for side in ("old", "new"):
        for number, start, end in _ranges(folder / side):
            for offset in range(start, end):
                times[number, offset] = times.get((number, offset), 0) + 1
    assert len(times) == RECORDS, f"lost: {RECORDS - len(times)}"
    doubled = sum(count - 1 for count in times.values())
    assert doubled <= (BATCH if old_killed else 0), _words(folder)
    return doubled


def _words(folder: Path) -> str:
    """What both said last."""
    logs = [folder / side / "log" for side in ("old", "new")]
    return "\n".join(f"{path}:\n{path.read_text()[-3000:]}" for path in logs if path.exists())
