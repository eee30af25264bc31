"""The agent of an executor: one process for all queries of the application, with a member of each one's group in it.

A task that finds no member of its query on its executor asks the agent for one, or starts the agent where there is
none (``executor.start_agent``).  That task binds the agent's socket and leaves the request there, so it need not wait for
the agent.  The socket's name is the lock: of many tasks one starts the agent.  It ends soon after its last member, and with
its executor.

Members share this process and its imports, and nothing else: each has its socket, its connection to its own coordinator,
its buffers and its threads (``query_member``), and ends alone.  If one can't be ended, or finds that it can serve no task
any more, the process ends.  Tasks then read from Kafka by themselves, and start the agent again.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import queue
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Final

import pyarrow as pa

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.agent.agent_config import AgentConfig, MalformedConfig, decode_config
from sparkcohort.runtime.shell.agent.query_member import QueryMember
from sparkcohort.runtime.shell.agent.task_frames import is_ours, receive_exactly
from sparkcohort.runtime.shell.rpc.acceptor import Acceptor
from sparkcohort.runtime.shell.rpc.log_lines import GROUP, chosen_level, stderr_handler
from sparkcohort.runtime.shell.rpc.process_identity import wait_for_exit
from sparkcohort.runtime.shell.rpc.resources import raise_limit
from sparkcohort.runtime.shell.rpc.threads import Supervised

log = logging.getLogger("sparkcohort.agent")

LARGEST: Final = 1 << 20
REQUEST_S: Final = 10.0
FIRST_MEMBER_S: Final = 30.0
"""How long an agent that was started waits for the request that it was started for."""
LINGER_S: Final = 2.0
"""How long it stays without a member: a query that is started again has one within this time."""
LOOK_S: Final = 5.0
END_S: Final = 10.0
"""How long the process may take to end."""
_LENGTH: Final = struct.Struct("!I")


class Agent:
    """The process of the executor whose JVM is ``executor``; ``listener`` is bound to ``name`` and takes requests already."""

    def __init__(self, name: str, listener: socket.socket, executor: int) -> None:
        """Nothing runs before ``run``."""
        self._name, self._executor = name, executor
        self._acceptor = Acceptor(listener, is_ours, self._serve_connection, self.fail)
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._members: dict[str, QueryMember | None] = {}  # by address; None: is being made
        self._idle_since = time.monotonic()
        self._linger_s = FIRST_MEMBER_S
        self._leaving = ""

    def run(self) -> None:
        """Serve until the last member has ended, or the executor."""
        self._acceptor.start()
        Supervised("cohort-watch", lambda: not self._leaving, self._watch_executor, self._resign).start()
        Supervised("cohort-agent", lambda: True, self._run_once, self._resign).run()
        self.fail("its own loop came to an end")

    # --- for its members ------------------------------------------------------------------------------

    def on_member_ended(self, member: QueryMember) -> None:
        """A member has released all that it had."""
        self._forget(member.config.address)
        self._inbox.put(_release_memory)

    def fail(self, reason: str) -> None:
        """End at once: a new process begins with nothing open, and its members take the places of these."""
        log.error("this agent ends, with all its members: %s", reason)
        os._exit(1)

    # --- requests -------------------------------------------------------------------------------------

    def _serve_connection(self, connection: socket.socket) -> None:
        """Read one request, which gets no answer, and make its member."""
        try:
            with connection:
                config = decode_config(_read_request(connection))
            self._add_member(config)
        except (OSError, MalformedConfig) as error:
            log.warning("a request to this agent was not understood: %s", error)

    def _add_member(self, config: AgentConfig) -> None:
        with self._lock:
            if config.address in self._members or self._leaving:
                return
            self._members[config.address] = None
        # Its own context, so that all its threads' lines say of which group they are.
        copy_context().run(self._make_member, config)

    def _make_member(self, config: AgentConfig) -> None:
        GROUP.set(config.group_id)
        try:
            member = QueryMember(config, self)
        except Exception:
            log.exception("no member could be made")
            self._forget(config.address)
            return
        with self._lock:
            self._members[config.address] = member
            leaving = self._leaving
        try:
            member.start()
        except Exception:
            log.exception("a member could not be started")
            leaving = leaving or "it could not be started"
        if leaving:
            member.end(leaving, leave=True)

    def _forget(self, address: str) -> None:
        with self._lock:
            self._members.pop(address, None)
            self._idle_since = time.monotonic()
            # An agent of one query's own gets no other member.
            self._linger_s = 0.0 if self._leaving or address == self._name else LINGER_S
        self._inbox.put(_wake)

    # --- the loop -------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        with self._lock:
            linger_s = LOOK_S if self._members else self._idle_since + self._linger_s - time.monotonic()
        with contextlib.suppress(queue.Empty):
            self._inbox.get(timeout=max(min(linger_s, LOOK_S), 0))()
        with self._lock:
            idle = not self._members and time.monotonic() >= self._idle_since + self._linger_s
        if idle:
            log.info("ending: %s", self._leaving or "no query has a member here any more")
            os._exit(0)  # sockets, memory and threads go with the process; nothing here is on a disk

    def _resign(self, error: CohortError) -> None:
        self.fail(str(error))

    # --- the end --------------------------------------------------------------------------------------

    def _watch_executor(self) -> None:
        wait_for_exit(self._executor)
        self.leave("the executor is gone")

    def leave(self, reason: str) -> None:
        """Have all members leave their groups, and end."""
        _set_kill_timer()
        with self._lock:
            self._leaving, self._linger_s = reason, 0.0
            members = [member for member in self._members.values() if member is not None]
        for member in members:
            member.end(reason, leave=True)
        self._inbox.put(_wake)

    def on_signal(self) -> None:
        """SIGTERM; needs no thread and no lock."""
        _set_kill_timer()
        self._inbox.put(partial(self.leave, "terminated"))


def _read_request(connection: socket.socket) -> bytes:
    """One request: a length, and as many bytes.  Raises OSError, MalformedConfig."""
    connection.settimeout(REQUEST_S)
    (length,) = _LENGTH.unpack(receive_exactly(connection, _LENGTH.size))
    if length > LARGEST:
        raise MalformedConfig(f"{length} bytes, at most {LARGEST} are taken")
    return bytes(receive_exactly(connection, length))


def _wake() -> None:
    """Wakes the loop."""


def _release_memory() -> None:
    """Gives an ended member's memory back to the system."""
    gc.collect()
    pa.default_memory_pool().release_unused()


def _set_kill_timer() -> None:
    """The kernel ends the process in time, even if the interpreter is stuck."""
    signal.setitimer(signal.ITIMER_REAL, END_S)


def main() -> None:
    """Run the agent whose socket is inherited: its name, its descriptor and the executor's process id are the arguments."""
    logging.basicConfig(level=chosen_level(), handlers=[stderr_handler()])
    raise_limit()
    name, descriptor, executor = sys.argv[1:4]
    listener = socket.socket(fileno=int(descriptor))
    listener.set_inheritable(False)
    agent = Agent(name, listener, int(executor))
    signal.signal(signal.SIGTERM, lambda *_: agent.on_signal())
    agent.run()


if __name__ == "__main__":
    main()
