"""The journal of a query's group on the driver's disk, with which the next run in this application goes on.

A query that is started again (stopped, failed, stream runner killed) finds its group as it was.  The members' agents wait for
it for a session timeout, at the port that they know, with their certificates and token.  So the file has the content of the
connection file, in the same folder with the same mode, and then the frames of ``runtime.group.journal``.

The file name has the identity of the driver's JVM, so another application never reads it.  The writing run holds a lock on the
file, so the next run reads it only after that run answers no more requests.  The journal survives the end of the process, not
of the machine: nothing is flushed to the disk.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import hmac
import logging
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import msgspec

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.group import Group, journal
from sparkcohort.runtime.group.records import GroupRecord
from sparkcohort.runtime.shell.rpc.connection_file import home
from sparkcohort.runtime.shell.rpc.executor import Executor
from sparkcohort.runtime.shell.rpc.process_identity import current_place
from sparkcohort.runtime.shell.rpc.tls import RunAuthority

log = logging.getLogger("sparkcohort.journal")

FORMAT: Final = 3
LARGEST: Final = 64 << 20
LEAST_REWRITE: Final = 1 << 20
"""The file is rewritten when it has grown by so many bytes, or by the size of the group, if that is more."""
ALIVE_S: Final = 1.0
SLOW_S: Final = 2.0
"""After a write that takes longer the journal is closed: the group waits for each write."""
OLD_S: Final = 3600.0
"""No member waits so long for a next run (session.timeout.ms)."""
LOOK_S: Final = 0.05
_ALIVE: Final = struct.Struct("!Q")
"""At the file's beginning: when its run last lived, in ns of the host's monotonic clock."""
_SUFFIX: Final = ".journal"


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """How members address and authenticate a run."""

    run_id: str
    port: Annotated[int, msgspec.Meta(ge=1, le=65_535)]
    authority: RunAuthority = field(repr=False)


class _Head(msgspec.Struct, frozen=True):
    """The first frame: for whose options the journal is, and what the connection file has."""

    format: int
    members: str  # ``_sealed``
    identity: RunIdentity


_HEAD: Final = msgspec.msgpack.Decoder(_Head)  # at import: see ``wire_types``


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The previous run: its identity and its last group."""

    identity: RunIdentity
    group: Group


class UnusableJournal(Exception):
    """This run can't use the journal; the message says why."""


class JournalInUse(UnusableJournal):
    """Another run writes it."""


def path_of(jvm: Executor, group_id: str, instance_id: str) -> Path:
    """The journal's path for this group in the application of this JVM.  Raises CohortError where there is no home."""
    key = "\0".join((*map(str, current_place()), jvm.process_name(), group_id, instance_id))
    return home() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}{_SUFFIX}"


def take(path: Path, members: str, *, session_timeout_ms: int, patience_s: float) -> Predecessor | None:
    """The previous run, if its members may still live and have the options ``members``; None otherwise.

    Waits ``patience_s`` for that run to end.  An unusable journal is removed.
    """
    try:
        with _locked_file(path, patience_s) as (descriptor, size):
            return _predecessor(os.pread(descriptor, size, 0), members, session_timeout_ms)
    except FileNotFoundError:
        return None
    except (OSError, UnusableJournal, journal.MalformedJournal) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        log.info("a new group begins, the journal of the previous run can't be used: %s", reason)
        if not isinstance(error, JournalInUse):
            with contextlib.suppress(OSError):
                path.unlink()
        return None


@contextlib.contextmanager
def _locked_file(path: Path, patience_s: float) -> Iterator[tuple[int, int]]:
    """The locked file, when no run writes it any more, and its size.  Raises OSError, UnusableJournal."""
    deadline = time.monotonic() + patience_s
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_size > LARGEST:
                raise UnusableJournal("it is no file of ours")
            if _locks(descriptor) and _is_at(path, descriptor):  # else the file was replaced meanwhile: open it again
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


def _predecessor(data: bytes, members: str, session_timeout_ms: int) -> Predecessor:
    """Raises UnusableJournal, MalformedJournal."""
    if len(data) < _ALIVE.size:
        raise UnusableJournal("it is empty")
    silent_ms = (time.monotonic_ns() - _ALIVE.unpack_from(data)[0]) // 1_000_000
    if not 0 <= silent_ms <= session_timeout_ms:
        raise UnusableJournal(f"its members have waited for {session_timeout_ms} ms, and are gone")
    body = next(journal.frames(data[_ALIVE.size :]), b"")
    try:
        head = _HEAD.decode(body)
    except (ValueError, RecursionError):  # msgspec's own are ValueErrors
        raise UnusableJournal("it can't be read") from None
    if head.format != FORMAT:
        raise UnusableJournal("it is of another version")
    seal = _sealed(members, head.identity.authority.client.token)
    if not hmac.compare_digest(head.members.encode(), seal.encode()):  # of texts it takes ASCII only
        raise UnusableJournal("the query has other options now")
    return Predecessor(head.identity, journal.restore_group(data[_ALIVE.size + len(journal.frame_body(body)) :]))


def _sealed(members: str, token: str) -> str:
    """A keyed hash of the members' options, which have secrets among them."""
    return hmac.new(token.encode(), members.encode(), hashlib.sha256).hexdigest()


class GroupJournal:
    """The journal of one run; its methods need the coordinator's lock, ``close`` comes after the last step."""

    def __init__(self, path: Path, identity: RunIdentity, members: str, group_id: str) -> None:
        """Nothing is written before ``open``."""
        self._path, self._group_id = path, group_id
        head = _Head(FORMAT, _sealed(members, identity.authority.client.token), identity)
        self._head = journal.frame_body(msgspec.msgpack.encode(head))
        self._descriptor: int | None = None
        self._grown = self._base = 0
        self._alive_ns = 0

    def open(self, group: Group) -> None:
        """Begin with the current group, in place of an earlier run's file.  A failure is one warning."""
        self._attempt(lambda: self._write_anew(group))
        if not self.is_usable:
            self._discard_former()

    def append(self, records: tuple[GroupRecord, ...], group: Group) -> None:
        """Write the records of a step, before its replies are sent; ``group`` is the group after it."""
        if self._descriptor is not None and records:
            self._attempt(lambda: self._append(journal.frame(records), group))

    def alive(self) -> None:
        """Write every ``ALIVE_S`` that this run lives: the next run decides by that whether its members may still wait."""
        if self._descriptor is not None and time.monotonic_ns() - self._alive_ns >= ALIVE_S * 1e9:
            self._attempt(self._write_alive)

    def close(self, *, keep: bool) -> None:
        """Close and unlock the file, for the next run; without ``keep`` remove it."""
        if self._descriptor is None:
            return
        if keep:
            self._attempt(self._write_alive)
        else:
            self._remove()
        self._release()

    @property
    def is_usable(self) -> bool:
        """Whether a next run can go on with this journal."""
        return self._descriptor is not None

    def _attempt(self, write: Callable[[], None]) -> None:
        """Write, or close the journal after an error or a slow write: the group goes on without it."""
        began = time.monotonic()
        try:
            write()
            took_s = time.monotonic() - began
            problem = f"a write took {took_s:.1f} s" if took_s > SLOW_S else ""
        except OSError as error:
            problem = error.strerror or type(error).__name__
        except Exception as error:  # noqa: BLE001  the step's replies must be sent after any error
            problem = type(error).__name__
        if problem:
            log.warning(
                "group %s: the group's journal can't be written (%s: %s): the query runs, but if it is started again in this "
                "application its executors' agents are started again; COHORT_HOME names the folder, best on a local disk",
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
            standing = journal.group_frame(group)
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
        """Raises OSError where another run has replaced the file."""
        if self._descriptor is not None and not _is_at(self._path, self._descriptor):
            raise FileExistsError(errno.EEXIST, "another run has begun one")

    def _append(self, data: bytes, group: Group) -> None:
        assert self._descriptor is not None  # noqa: S101  asked before
        if self._grown + len(data) > max(LEAST_REWRITE, self._base):
            self._write_anew(group)
        else:
            _write(self._descriptor, data)
            self._grown += len(data)

    def _write_alive(self) -> None:
        assert self._descriptor is not None  # noqa: S101  asked before
        self._alive_ns = time.monotonic_ns()
        os.pwrite(self._descriptor, _ALIVE.pack(self._alive_ns), 0)

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            if self._descriptor is not None and _is_at(self._path, self._descriptor):  # else the file is a later run's
                self._path.unlink()

    def _discard_former(self) -> None:
        """Remove an earlier run's file: this run's group goes on without a journal, so the next run must not use that one."""
        with contextlib.suppress(OSError, UnusableJournal), _locked_file(self._path, 0) as (descriptor, _):
            os.ftruncate(descriptor, 0)  # works also where the folder's mode forbids to remove it
            self._path.unlink()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    """Write all bytes, or raise OSError: a full disk takes a part of them."""
    rest_bytes = memoryview(data)
    while rest_bytes:
        rest_bytes = rest_bytes[os.write(descriptor, rest_bytes) :]


def sweep() -> None:
    """Remove journals that no run has written for ``OLD_S``: those of ended applications."""
    with contextlib.suppress(OSError, CohortError):
        for path in home().glob(f"*{_SUFFIX}"):
            _sweep(path)


def _sweep(path: Path) -> None:
    with contextlib.suppress(OSError, UnusableJournal), _locked_file(path, 0) as (descriptor, _):
        if time.time() - os.fstat(descriptor).st_mtime > OLD_S:
            path.unlink()
