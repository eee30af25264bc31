"""The journal's file: what one run leaves the next one takes, if it is of use; nobody else can read it."""

from __future__ import annotations

import json
import logging
import os
import resource
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from sparkcohort.runtime import group as groups
from sparkcohort.runtime.group import journal
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.state import Position
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator import group_journal
from sparkcohort.runtime.shell.coordinator.group_journal import (
    GroupJournal,
    Predecessor,
    RunIdentity,
    path_of,
    sweep,
    take,
)
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.executor import Executor
from sparkcohort.runtime.shell.rpc.process_identity import started
from tests.kit.waiting import hold_for

JVM = Executor(os.getpid(), started(os.getpid()), "driver", "host", 1)
IDENTITY = RunIdentity("0123456789ab", 4711, new_authority())
OPTIONS = json.dumps(["sasl.password", "topsecret"])
GROUP = groups.new_group(groups.GroupConfig("billing"))
TP = TopicPartition("t", 0)


def numbered(number: int) -> r.OffsetsCommitted:
    """A record that can be told from others."""
    return r.OffsetsCommitted(((TP, Position(number, "m", 0)),))


def at(number: int) -> groups.Group:
    """The group after it."""
    return numbered(number).apply(GROUP)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own."""
    monkeypatch.setenv("COHORT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def kept(home: Path) -> Iterator[GroupJournal]:
    """A journal that a run has left: three steps behind its beginning."""
    made = left(home)
    yield made
    made.close(keep=False)


def left(home: Path, steps: int = 3) -> GroupJournal:
    """A journal with so many steps."""
    made, group = GroupJournal(path_of(JVM, "billing", "i"), IDENTITY, OPTIONS, "billing"), GROUP
    made.open(group)
    for number in range(1, steps + 1):
        record = numbered(number)
        group = record.apply(group)
        made.append((record,), group)
    assert [path.suffix for path in home.iterdir()] == [".journal"]
    return made


def taken(options: str = OPTIONS, session_timeout_ms: int = 60_000, patience_s: float = 0.3) -> Predecessor | None:
    """What the next run takes."""
    path = path_of(JVM, "billing", "i")
    return take(path, options, session_timeout_ms=session_timeout_ms, patience_s=patience_s)


def test_the_next_run_takes_what_is_left(kept: GroupJournal, home: Path) -> None:
    """Port, credentials and group; in a file and a folder for this user alone, with no option's value in it."""
    kept.close(keep=True)
    found = taken()
    assert found == Predecessor(IDENTITY, at(3))
    (file,) = home.iterdir()
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(home.stat().st_mode)) == (0o600, 0o700)
    assert b"topsecret" not in file.read_bytes()
    assert "PRIVATE" not in repr(found)


def test_a_first_run_has_none() -> None:
    """Nothing is there, and nothing is said."""
    assert taken() is None


def test_another_application_or_group_has_its_own(kept: GroupJournal) -> None:
    """JVM, group and instance id are in the name."""
    kept.close(keep=True)
    mine = path_of(JVM, "billing", "i")
    others = [path_of(replace(JVM, started=1), "billing", "i"), path_of(JVM, "b", "i"), path_of(JVM, "billing", "j")]
    assert len({mine, *others}) == 4


def test_whoever_writes_it_keeps_others_off(kept: GroupJournal, caplog: pytest.LogCaptureFixture) -> None:
    """Two runs at a time don't go on with one group: the second waits for a time, and begins anew."""
    caplog.set_level(logging.INFO)
    assert taken() is None
    assert "the run before has not ended within 0.3 s" in caplog.text
    assert path_of(JVM, "billing", "i").exists(), "it is still somebody's"


def test_the_run_before_may_take_a_moment_to_end(kept: GroupJournal) -> None:
    """The file is read when its writer lets go, wherever it has been written anew meanwhile."""
    found: list[Predecessor | None] = []
    taking = threading.Thread(target=lambda: found.append(taken(patience_s=60)))
    taking.start()
    kept.open(at(70))
    hold_for(taking.is_alive, 0.3, "the next run waits")
    kept.close(keep=True)
    taking.join(60)
    assert found[0] is not None and found[0].group == at(70)


def said_at(path: Path, at_ns: int) -> None:
    """Its run was last there at this time."""
    path.write_bytes(struct.pack("!Q", max(at_ns, 0)) + path.read_bytes()[8:])


NESTED = 50_000


DEEP = journal.frame_body(b"\x91" * NESTED)
"""A list of a list, and so on."""


def headed(path: Path, body: bytes = b"", port: float = IDENTITY.port, **said: float | str) -> None:
    """Another first frame, or the same that says something else."""
    data = path.read_bytes()
    head = next(journal.frames(data[8:]))
    value = msgspec.msgpack.decode(head)
    value |= {**said, "identity": value["identity"] | {"port": port}}
    path.write_bytes(data[:8] + journal.frame_body(body or msgspec.msgpack.encode(value)) + data[12 + len(head) :])


def become_a_pipe(path: Path) -> None:
    """Whoever opens it would wait for a writer."""
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda _: {"options": "[]"}, "the query has other options now"),
        (lambda path: said_at(path, time.monotonic_ns() - 61 * 10**9), "its members have waited for 60000 ms"),
        (lambda path: said_at(path, time.monotonic_ns() + 10**15), "its members have waited"),
        (lambda path: path.write_bytes(b""), "it is empty"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "it can't be read"),
        (lambda path: headed(path, format=1), "of another version"),
        (
            lambda path: path.write_bytes(path.read_bytes() + journal.frame((r.Emptied(-3),)) * 2),
            "a frame of it is none",
        ),
        (lambda path: path.write_bytes(path.read_bytes() + DEEP), "a frame of it is none"),
        (lambda path: headed(path, b"\x91" * NESTED), "it can't be read"),
        (lambda path: headed(path, members="é" * 64), "the query has other options now"),
        (lambda path: headed(path, port=float("inf")), "it can't be read"),
        (lambda path: headed(path, port=65_536), "it can't be read"),
        (lambda path: os.truncate(path, group_journal.LARGEST + 1), "it is no file of ours"),
        (become_a_pipe, "it is no file of ours"),
        (lambda path: path.symlink_to(path.rename(path.with_suffix(".moved"))), "Too many levels of symbolic links"),
    ],
)
def test_what_is_of_no_use_is_removed(
    kept: GroupJournal, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], object], why: str
) -> None:
    """The group begins anew, and one line says why."""
    caplog.set_level(logging.INFO)
    kept.close(keep=True)
    path = path_of(JVM, "billing", "i")
    asked = spoil(path)
    assert taken(**asked if isinstance(asked, dict) else {}) is None
    assert why in caplog.text
    assert len(caplog.records) == 1
    assert not path.exists()


def test_it_is_written_anew_when_it_has_grown(kept: GroupJournal, home: Path) -> None:
    """A group that lives long has a journal that does not grow with it."""
    text = "x" * 1_000
    for number in range(5_000):
        record = r.GroupUnloaded(f"{number} {text}")
        kept.append((record,), at(number))
    (file,) = home.iterdir()
    assert file.stat().st_size < 2 * group_journal.LEAST_REWRITE
    kept.close(keep=True)
    found = taken()
    assert found is not None and found.group.committed[TP].offset > 4_000


def test_a_disk_that_is_full_ends_the_journal_not_the_query(
    kept: GroupJournal, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning that names folder and remedy; no half of a journal stays, and nothing more is tried."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    (file,) = home.iterdir()
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 10, before[1]))
    try:
        for number in range(4, 9):
            kept.append((numbered(number),), GROUP)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(home) in caplog.text and "COHORT_HOME" in caplog.text
    assert list(home.iterdir()) == []
    assert not kept.is_usable
    kept.alive()
    kept.close(keep=True)
    assert taken() is None


@pytest.mark.parametrize("why", ["a write took", "TypeError"])
def test_the_group_neither_waits_for_its_journal_nor_fails_with_it(
    kept: GroupJournal, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    """A disk that takes long, a record that can't be written: no journal, one warning."""
    if why == "TypeError":
        monkeypatch.setattr(journal, "frame", len)  # no bytes
    else:
        monkeypatch.setattr(group_journal, "SLOW_S", -1.0)
    kept.append((numbered(9),), GROUP)
    assert why in caplog.text
    assert (kept.is_usable, list(home.iterdir())) == (False, [])


def test_a_later_runs_journal_is_let_alone(kept: GroupJournal) -> None:
    """By whoever still ends: it neither removes it nor writes its own over it."""
    path = path_of(JVM, "billing", "i")
    path.unlink()
    later = left(path.parent)
    kept.open(GROUP)
    assert not kept.is_usable
    kept.close(keep=False)
    later.close(keep=True)
    found = taken()
    assert found is not None and found.group == at(3)


def test_a_journal_that_can_not_be_begun_leaves_none_of_an_earlier_run(kept: GroupJournal, home: Path) -> None:
    """The run after would go on with the group of two runs ago."""
    kept.close(keep=True)
    (file,) = home.iterdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size // 2, before[1]))
    later = GroupJournal(file, IDENTITY, OPTIONS, "billing")
    try:
        later.open(GROUP)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not later.is_usable
    later.close(keep=True)
    assert list(home.iterdir()) == []
    assert taken() is None


def test_an_end_for_good_leaves_nothing(kept: GroupJournal, home: Path) -> None:
    """Neither file nor lock."""
    kept.close(keep=False)
    assert list(home.iterdir()) == []


def test_the_journals_of_ended_applications_are_swept(kept: GroupJournal, home: Path) -> None:
    """By whoever comes next, an hour after the last sign of life; what is written stays, and so does what is none of ours."""
    kept.close(keep=True)
    (fresh,) = home.iterdir()
    old = (time.time() - 2 * group_journal.OLD_S,) * 2
    written = path_of(replace(JVM, started=1), "billing", "i")  # another run has its lock
    there = GroupJournal(written, IDENTITY, OPTIONS, "billing")
    there.open(GROUP)
    half = home / "0123.new.journal"  # a process that was killed while it wrote anew
    half.write_bytes(fresh.read_bytes())
    (home / "mine.journal").write_text("no journal")
    os.mkfifo(home / "pipe.journal")
    for path in (written, half, home / "pipe.journal"):
        os.utime(path, old)
    sweep()
    assert {path.name for path in home.iterdir()} == {fresh.name, written.name, "mine.journal", "pipe.journal"}
    there.close(keep=False)
