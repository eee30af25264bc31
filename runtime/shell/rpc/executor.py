"""Finds the Spark executor that this process runs under, and starts its agent, or asks the agent for a member.

Read from /proc: the executor is the first Java process above the Python worker (worker, daemon, JVM), which in a
container may be process 1.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sparkcohort.runtime.shell.rpc.process_identity import stat_fields

_PROC = Path("/proc")
_STDERR = 2
_SUFFIX, _BACKLOG = "-agent", 128
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
_ASK_S = 1.0
_ARCHIVES = frozenset({".zip", ".egg", ".jar"})
_ORPHANED = ("/bin/sh", "-c", '"$@" &', "sh")
"""Starts a command as a child of init, which reaps it: as a child of a Python worker, which is kept for later tasks, an agent
that ended would stay as a zombie."""


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor: its JVM (``pid`` and start time in clock ticks since boot), Spark's id for it, host and cores (of which a task may take several)."""

    pid: int
    started: int
    executor_id: str
    host: str
    cores: int

    def with_task_cpus(self, cpus: int) -> Executor:
        """The same, its cores those that tasks of so many cpus (spark.task.cpus) take at once: count tasks, not cores."""
        return replace(self, cores=max(self.cores // max(cpus, 1), 1))

    def address(self, run_id: str) -> str:
        """The name of a member's abstract socket: one per coordinator run and JVM, also where pids are reused."""
        return f"cohort-{run_id}-{self.process_name()}"

    def agent_name(self) -> str:
        """The name of its agent: one for all runs of queries in this installation of ours, by this Python.

        It can't be guessed: a process that may not look into the JVM can't take the name first.
        """
        secret = b""
        with contextlib.suppress(OSError):  # a JVM that can't be looked into: the name can be guessed then
            secret = (_PROC / str(self.pid) / "auxv").read_bytes()
        installation = "\0".join((sys.executable, __file__, str(os.getuid()))).encode()
        return f"cohort-{hashlib.sha256(installation + secret).hexdigest()[:24]}-{self.process_name()}"

    def instance_id(self) -> str:
        """Its agent's ``group.instance.id`` (KIP-345): the same for every agent that is started on this executor.

        Spark's ids are unique within an application; the digest of host and process keeps executors apart whose ids
        can't be found, lest they fence each other for ever.
        """
        digest = hashlib.sha256(f"{self.host} {self.process_name()}".encode()).hexdigest()[:8]
        return f"executor-{self.executor_id}-{digest}"

    def process_name(self) -> str:
        """A name that no other process of this host has: containers on one network all have a process 1."""
        namespace = (_PROC / "self/ns/pid").stat().st_ino
        return f"{self.pid}-{self.started}-{namespace}"


class NoExecutor(LookupError):
    """The executor above this process can't be found; the message says why."""


def find_executor(pid: int | None = None) -> Executor:
    """The executor above this process.  Raises NoExecutor."""
    current, ancestors = pid or os.getpid(), list[int]()
    try:
        if (own := (_PROC / "self").readlink().name) != str(os.getpid()):
            raise NoExecutor(f"/proc is of another process namespace: it calls this process {own}, not {os.getpid()}")
        while current > 0:  # the parent of process 1, and of one that came from another namespace, is 0
            fields, arguments = stat_fields(current), _arguments(current)
            if "java" in (Path(arguments[0]).name, _program(current)):
                return _parse_executor(current, int(fields[19]), arguments)
            ancestors.append(current)
            current = int(fields[1])
    except OSError as error:
        raise NoExecutor(f"{error.filename or f'/proc/{current}'} can't be read ({error.strerror})") from None
    names = ", ".join(_program(each) or "?" for each in ancestors)
    raise NoExecutor(f"there is no JVM among this process and those above it ({names})")


def _arguments(pid: int) -> list[str]:
    return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")


def _program(pid: int) -> str:
    """The name of a process's program file; empty where it can't be read."""
    try:
        return (_PROC / str(pid) / "exe").readlink().name
    except OSError:
        return ""


def _parse_executor(pid: int, started: int, arguments: list[str]) -> Executor:
    def argument(flag: str, default: str) -> str:
        return arguments[arguments.index(flag) + 1] if flag in arguments[:-1] else default

    cores = argument("--cores", "")
    return Executor(
        pid=pid,
        started=started,
        executor_id=argument("--executor-id", "driver"),
        host=argument("--hostname", socket.gethostname()),
        cores=int(cores) if cores.isdigit() else _local_cores(arguments),
    )


def _local_cores(arguments: list[str]) -> int:
    """Cores of a ``local[n]`` master as its command line says, else those of the machine."""
    match = re.search(r"\blocal\[(\d+)", " ".join(arguments))
    return int(match.group(1)) if match else os.cpu_count() or 1


def module_paths(folder: Path) -> list[str]:
    """Entries for sys.path: the folder of what Spark has shipped (``--py-files``) and each archive in it; none where it is missing."""
    if not folder.is_dir():
        return []
    return [str(folder), *sorted(str(path) for path in folder.iterdir() if path.suffix in _ARCHIVES)]


def agent_answers(address: str) -> bool:
    """Whether a member listens there (its agent may still be frozen)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(f"\0{address}")
        except TimeoutError:  # a full backlog: the name has an owner
            return True
        except OSError:
            return False
        return True


def start_agent(name: str, address: str, executor: Executor, request: bytes, paths: Sequence[str] = ()) -> bool:
    """Leave the request for the member at ``address`` with the agent of this name; start the agent where there is none.

    True if the request was left; its result isn't awaited.  Raises OSError where it can't be.  A new agent finds the
    modules that this process finds, and those in ``paths``; its output goes to its standard error.

    Its socket is made here, with the request in it, and inherited: its name can't go stale, and of several tasks that land
    at the same moment exactly one starts the agent.
    """
    if agent_answers(address):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            listener.bind(f"\0{name}{_SUFFIX}")
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return _ask(name, request)
        listener.listen(_BACKLOG)
        _ask(name, request)
        _start(name, listener, str(executor.pid), paths)
    return True


def _ask(name: str, request: bytes) -> bool:
    """Leave a request with an agent; false if it is just being started, or ends, or is frozen with many requests waiting."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(_ASK_S)
        try:
            client.connect(f"\0{name}{_SUFFIX}")
        except (ConnectionError, TimeoutError, BlockingIOError):
            return False
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(credentials)[1] != os.getuid():
            raise PermissionError("the agent's socket belongs to another user")
        client.sendall(len(request).to_bytes(4, "big") + request)
    return True


def _start(name: str, listener: socket.socket, executor: str, paths: Sequence[str]) -> None:
    descriptor = fcntl.fcntl(listener.fileno(), fcntl.F_DUPFD_CLOEXEC, 10)  # from 10: the shell uses lower ones itself
    # Arrow's own pool keeps twenty MiB for the four that an agent has there at most.
    # numpy's linear algebra, which the agent doesn't use, would start a thread for every core.
    environment = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1", **os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [*sys.path, *paths]))
    module = "sparkcohort.runtime.shell.agent.agent"
    try:
        subprocess.run(
            [*_ORPHANED, sys.executable, "-m", module, name, str(descriptor), executor],
            stdin=subprocess.DEVNULL,
            stdout=_STDERR,
            pass_fds=(descriptor,),
            start_new_session=True,
            env=environment,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise OSError(f"the shell that starts the agent ended with status {error.returncode}") from error
    finally:
        os.close(descriptor)
