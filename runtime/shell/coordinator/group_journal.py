"""The journal of a query's group on the driver's disk: the next run in this application goes on with the group.

A query that is started again (stopped, failed, its stream runner killed) finds its group as it was, and the members' agents, which
wait for it for a session timeout: at the port that they know, with the certificates and the token that they have.  So the file says what
the connection file says, in the same folder and with the same mode, and then what ``runtime.group.journal`` writes.

Its name is of the driver's JVM: another application never meets it.  Whoever writes it holds a lock on it, so it is read
when the run before answers nobody any more.  It is for a process that ends, not for a machine that does: nothing is flushed
to the disk.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import hmac
import json
import logging
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.group import Group, journal
from sparkcohort.runtime.group.records import Record
from sparkcohort.runtime.group.state import EmbeddedProtocol
from sparkcohort.runtime.shell.process.executor import Executor
from sparkcohort.runtime.shell.process.process_identity import here, started
from sparkcohort.runtime.shell.rpc.connection_file import home
from sparkcohort.runtime.shell.rpc.tls import Credentials, RunAuthority

log = logging.getLogger("sparkcohort.journal")

FORMAT: Final = 1
LARGEST: Final = 64 << 20
LEAST_REWRITE: Final = 1 << 20
"""A file is written anew when it has grown by so much, or by what the group itself takes, if that is more."""
ALIVE_S: Final = 1.0
SLOW_S: Final = 2.0
"""A write that takes longer is the last one: the group waits for it."""
OLD_S: Final = 3600.0
"""No member waits that long for a next run (session.timeout.ms)."""
LOOK_S: Final = 0.05
_ALIVE: Final = struct.Struct("!Q")
"""At the file's beginning: when its run was last there, in ns of the host's monotonic clock."""
_SUFFIX: Final = ".journal"
_LAST_PORT: Final = 65_535
_NO_HEAD: Final = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""What reading a head may raise: one that is no JSON, is nested deeply, lacks a name, or has other values than we write."""


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What members know a run by."""

    run_id: str
    port: int
    authority: RunAuthority = field(repr=False)


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The run before: how its members find it, and its group as it stood."""

    identity: RunIdentity
    group: Group


class UnusableJournal(Exception):
    """The journal is no use to this run; the message says why."""


class JournalInUse(UnusableJournal):
    """Somebody writes it."""


def path_of(jvm: Executor, group_id: str, instance_id: str) -> Path:
    """Where the journal of this group is in the application of this JVM.  Raises CohortError where there is no home."""
    key = "\0".join((*map(str, here()), jvm.process(), group_id, instance_id))
    return home() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}{_SUFFIX}"


def take(
    path: Path, members: str, embedded: EmbeddedProtocol, *, session_timeout_ms: int, patience_s: float
) -> Predecessor | None:
    """What the run before has left, if the members of its group may still be there and are set up as ``members`` says.

    Waits so long for that run to end.  What is no use is removed.
    """
    try:
        with _locked_file(path, patience_s) as (descriptor, size):
            return _predecessor(os.pread(descriptor, size, 0), members, embedded, session_timeout_ms)
    except FileNotFoundError:
        return None
    except (OSError, UnusableJournal, journal.MalformedJournal) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        log.info("the group begins anew, the journal of the run before is of no use: %s", reason)
        if not isinstance(error, JournalInUse):
            with contextlib.suppress(OSError):
                path.unlink()
        return None


@contextlib.contextmanager
def _locked_file(path: Path, patience_s: float) -> Iterator[tuple[int, int]]:
    """The file when nobody writes it any more, and its size.  Raises OSError, NotTaken."""
    deadline = time.monotonic() + patience_s
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_size > LARGEST:
                raise UnusableJournal("it is no file of ours")
            if _locks(descriptor) and _is_at(path, descriptor):  # else it has been written anew meanwhile
                yield descriptor, os.fstat(descriptor).st_size
                return
        finally:
            os.close(descriptor)
        if time.monotonic() > deadline:
            raise JournalInUse(f"the run before has not ended within {patience_s:g} s")
        time.sleep(LOOK_S)


def _locks(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file still has this name."""
    opened, current = os.fstat(descriptor), path.stat(follow_symlinks=False)
    return (current.st_dev, current.st_ino) == (opened.st_dev, opened.st_ino)


def _predecessor(data: bytes, members: str, embedded: EmbeddedProtocol, session_timeout_ms: int) -> Predecessor:
    """Raises NotTaken, MalformedJournal."""
    if len(data) < _ALIVE.size:
        raise UnusableJournal("it is empty")
    silent_ms = (time.monotonic_ns() - _ALIVE.unpack_from(data)[0]) // 1_000_000
    if not 0 <= silent_ms <= session_timeout_ms:
        raise UnusableJournal(f"its members have waited for {session_timeout_ms} ms, and are gone")
    head = next(journal.frames(data[_ALIVE.size :]), b"")
    try:
        head_values = json.loads(head)
        if head_values["format"] != FORMAT:
            raise UnusableJournal("it is of another version")
        client = Credentials(
            authority=head_values["authority"].encode(),
            certificate=head_values["certificate"].encode(),
            key=head_values["key"].encode(),
            token=str(head_values["token"]),
        )
        authority = RunAuthority(head_values["server_certificate"].encode(), head_values["server_key"].encode(), client)
        identity = RunIdentity(str(head_values["run_id"]), int(head_values["port"]), authority)
        has_same_members = hmac.compare_digest(str(head_values["members"]), _sealed(members, client.token))
    except _NO_HEAD:
        raise UnusableJournal("it can't be read") from None
    if not 0 < identity.port <= _LAST_PORT:
        raise UnusableJournal("it names no port")
    if not has_same_members:
        raise UnusableJournal("the query has other options now")
    return Predecessor(identity, journal.restored(data[_ALIVE.size + len(journal.framed(head)) :], embedded))


def _sealed(members: str, token: str) -> str:
    """A name of the options that members were started with: there are secrets among them."""
    return hmac.new(token.encode(), members.encode(), hashlib.sha256).hexdigest()


class GroupJournal:
    """One run's; its methods are called by whoever owns the group, and ``close`` when nobody does any more."""

    def __init__(self, path: Path, identity: RunIdentity, members: str, jvm: Executor, group_id: str) -> None:
        """Nothing is written before ``open``."""
        self._path, self._group_id = path, group_id
        client, authority = identity.authority.client, identity.authority
        head: dict[str, Any] = {
            "format": FORMAT,
            "boot": here().boot,
            "pids": here().pids,
            "jvm": jvm.pid,
            "jvm_started": jvm.started,
            "members": _sealed(members, client.token),
            "run_id": identity.run_id,
            "port": identity.port,
            "server_certificate": authority.server_certificate.decode(),
            "server_key": authority.server_key.decode(),
            "authority": client.authority.decode(),
            "certificate": client.certificate.decode(),
            "key": client.key.decode(),
            "token": client.token,
        }
        self._head = journal.framed(json.dumps(head).encode())
        self._descriptor: int | None = None
        self._grown = self._base = 0
        self._alive_ns = 0

    def open(self, group: Group) -> None:
        """Begin with the group as it stands, in place of what an earlier run has left.  Where that can't be: one warning."""
        self._attempt(lambda: self._write_anew(group))
        if not self.is_usable:
            self._discard_former()

    def append(self, records: tuple[Record, ...], group: Group) -> None:
        """Keep what a step has changed, before anybody hears of it; ``group`` is what came of it."""
        if self._descriptor is not None and records:
            self._attempt(lambda: self._append(journal.frame(records), group))

    def alive(self) -> None:
        """Say now and then that this run is there: how old the journal is decides whether its members may be."""
        if self._descriptor is not None and time.monotonic_ns() - self._alive_ns >= ALIVE_S * 1e9:
            self._attempt(self._tell_alive)

    def close(self, *, keep: bool) -> None:
        """Let go of the file: the next run may take it; without ``keep`` there is to be none."""
        if self._descriptor is None:
            return
        if keep:
            self._attempt(self._tell_alive)
        else:
            self._remove()
        self._release()

    @property
    def is_usable(self) -> bool:
        """Whether there is a journal that a next run can take."""
        return self._descriptor is not None

    def _attempt(self, write: Callable[[], None]) -> None:
        """Write, or have no journal: the group does without it, and neither fails nor waits for it."""
        began = time.monotonic()
        try:
            write()
            took_s = time.monotonic() - began
            problem = f"a write took {took_s:.1f} s" if took_s > SLOW_S else ""
        except OSError as error:
            problem = error.strerror or type(error).__name__
        except Exception as error:  # noqa: BLE001  whatever it is, the step's answers are waited for
            problem = type(error).__name__
        if problem:
            log.warning(
                "group %s: the group's journal can't be written (%s: %s): the query runs, but if it is started again in this "
                "application its executors' agents are started anew; COHORT_HOME names the folder, best on a local disk",
                self._group_id,
                self._path.parent,
                problem,
            )
            self._remove()
            self._release()

    def _write_anew(self, group: Group) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self._path.with_suffix(f".new{_SUFFIX}")
        fresh.unlink(missing_ok=True)
        descriptor = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            standing = journal.opening(group)
            _write(descriptor, _ALIVE.pack(time.monotonic_ns()) + self._head + standing)
            self._check_ours()
            fresh.rename(self._path)
        except BaseException:
            os.close(descriptor)
            fresh.unlink(missing_ok=True)
            raise
        self._release()
        self._descriptor = descriptor
        self._grown, self._base = 0, len(standing)

    def _check_ours(self) -> None:
        """Raises OSError where another run has begun a journal of this name."""
        if self._descriptor is not None and not _is_at(self._path, self._descriptor):
            raise FileExistsError(errno.EEXIST, "another run has begun one")

    def _append(self, data: bytes, group: Group) -> None:
        assert self._descriptor is not None  # noqa: S101  asked before
        if self._grown + len(data) > max(LEAST_REWRITE, self._base):
            self._write_anew(group)
        else:
            _write(self._descriptor, data)
            self._grown += len(data)

    def _tell_alive(self) -> None:
        assert self._descriptor is not None  # noqa: S101  asked before
        self._alive_ns = time.monotonic_ns()
        os.pwrite(self._descriptor, _ALIVE.pack(self._alive_ns), 0)

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            if self._descriptor is not None and _is_at(self._path, self._descriptor):  # else it is a later run's
                self._path.unlink()

    def _discard_former(self) -> None:
        """What an earlier run has left stands for a group that goes on without it: the run after this one is not to take that."""
        with contextlib.suppress(OSError, UnusableJournal), _locked_file(self._path, 0) as (descriptor, _):
            os.ftruncate(descriptor, 0)  # also where the folder lets nobody remove it
            self._path.unlink()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    """All of it, or OSError: a disk that is full takes a part."""
    rest_bytes = memoryview(data)
    while rest_bytes:
        rest_bytes = rest_bytes[os.write(descriptor, rest_bytes) :]


def sweep() -> None:
    """Remove the journals that nobody writes and nobody can take: of applications that have ended, or of long ago."""
    with contextlib.suppress(OSError, CohortError):
        for path in home().glob(f"*{_SUFFIX}"):
            _sweep(path)


def _sweep(path: Path) -> None:
    with contextlib.suppress(OSError, UnusableJournal), _locked_file(path, 0) as (descriptor, _):
        old = time.time() - os.fstat(descriptor).st_mtime > OLD_S
        if old or _has_ended(os.pread(descriptor, 64 << 10, _ALIVE.size)):
            path.unlink()


def _has_ended(data: bytes) -> bool:
    """Whether the application that a journal's first frame names lived here, and has ended."""
    try:
        head = json.loads(next(journal.frames(data), b""))
        lived_here = (head["boot"], head["pids"]) == here()[1:] and here().is_certain()
        return bool(lived_here and started(int(head["jvm"])) != head["jvm_started"])
    except _NO_HEAD:
        return False
