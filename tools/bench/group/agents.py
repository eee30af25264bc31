"""Ours in the comparison: the product's coordinator, and real member agents, each in a process of its own.

An agent tells its callbacks by its own log lines, which a logging handler of the bench passes on.  Its process is up and
has imported everything before it is told to join, as the Java consumers' is.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from sparkcohort.runtime.shell.agent.agent_config import AgentConfig
from sparkcohort.runtime.shell.agent.query_member import QueryMember
from sparkcohort.runtime.shell.process.executor import Executor
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tools.bench.group.server import ASSIGNORS, HOST, SPAWN, START_S, Address, Server, Setting
from tools.bench.group.timeline import Change

BUFFER_BYTES = 8 << 20
NUMBER = re.compile(r"-(\d+)(?:,|$)")


class Agents:
    """Members of one group, as processes."""

    def __init__(self, setting: Setting, bootstrap: str, heard: Callable[[Change], None]) -> None:
        self._setting = setting
        self._bootstrap = bootstrap
        self._heard = heard
        self._server = Server(setting)
        self._pipes: dict[str, Connection] = {}
        self._processes: dict[str, Any] = {}

    def open(self, names: list[str]) -> None:
        """Start these members' processes and wait until they are ready to join."""
        for name in names:
            self._pipes[name], theirs = SPAWN.Pipe()
            arguments = (self._config(name), theirs)
            self._processes[name] = SPAWN.Process(target=_run, args=arguments, name=f"bench-{name}", daemon=True)
            self._processes[name].start()
            theirs.close()
        for name in names:
            if not self._pipes[name].poll(START_S):
                raise TimeoutError(f"agent {name} did not start within {START_S:g} s")
            self._pipes[name].recv()
            threading.Thread(target=self._listen, args=(name, self._pipes[name]), daemon=True).start()

    def join(self, name: str) -> None:
        """Let it join."""
        self._pipes[name].send("join")

    def close(self, name: str) -> None:
        """Let it leave and end (SIGTERM, as the agent itself takes it)."""
        self._pipes[name].send("leave")

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._processes[name].kill()

    def end(self) -> None:
        """End everything."""
        for process in self._processes.values():
            process.kill()
            process.join()
        self._server.__exit__(None, None, None)

    def _config(self, name: str) -> tuple[dict[str, Any], Address]:
        said = {
            "address": f"cohort-bench-{uuid.uuid4().hex}",
            "executor_id": name,
            "kafka": {"bootstrap.servers": self._bootstrap},
            "setting": self._setting,
        }
        return said, self._server.address

    def _listen(self, name: str, pipe: Connection) -> None:
        with suppress(EOFError, OSError):
            while True:
                at, gained, partitions = pipe.recv()
                self._heard(Change(at, name, gained, frozenset(partitions)))


class _Teller(logging.Handler):
    """Passes on when the agent says that it was assigned, revoked or lost partitions."""

    _WORDS: Mapping[str, bool] = {"assigned": True, "revoked": False, "lost": False}

    def __init__(self, pipe: Connection) -> None:
        super().__init__()
        self._pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        """Called under the handler's lock."""
        word, _, named = record.getMessage().partition(" ")
        if word in self._WORDS and (numbers := NUMBER.findall(named)):
            self._pipe.send((record.created, self._WORDS[word], tuple(map(int, numbers))))


def _run(config: tuple[dict[str, Any], Address], pipe: Connection) -> None:
    said, address = config
    setting: Setting = said["setting"]
    host = _Host()
    member = QueryMember(
        AgentConfig(
            address=said["address"],
            executor=Executor(os.getppid(), 0, said["executor_id"], HOST, 1),
            host=HOST,
            port=address.port,
            credentials=address.credentials,
            kafka=said["kafka"],
            columns=KAFKA_ROW,
            buffer_bytes=BUFFER_BYTES,
            session_timeout_ms=setting.session_ms,
            heartbeat_interval_ms=setting.heartbeat_ms,
            rebalance_timeout_ms=setting.rebalance_ms,
            assignors=ASSIGNORS,
            rack="",
        ),
        host,
    )
    log = logging.getLogger("sparkcohort.agent")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(_Teller(pipe))
    pipe.send("ready")
    pipe.recv()
    threading.Thread(target=_wait_to_leave, args=(member, pipe), daemon=True).start()
    member.start()
    host.over.wait()
    os._exit(0)


def _wait_to_leave(member: QueryMember, pipe: Connection) -> None:
    with suppress(EOFError):
        pipe.recv()
        member.leave("terminated")


class _Host:
    """The process, which has no other member."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def ending(self, _member: QueryMember) -> None:
        """It is waited for."""

    def ended(self, _member: QueryMember) -> None:
        """Nothing is left."""
        self.over.set()

    def fail(self, _reason: str) -> None:
        """What follows is said where it matters."""
        self.over.set()
