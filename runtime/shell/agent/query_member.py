"""A query's member in the agent of an executor, from its first contact to its end, with all that it needs to itself.

It joins the group (``member_loop``), owns partitions, prefetches them and hands them to the tasks of its own executor, which
find it by a socket of its own and its run's token; it ends when its coordinator says so, or has been unreachable for a session
timeout, and with the process (``agent``).  So a query that is started again within that time finds it, with its partitions
and buffers.  At its end it closes all that it opened; the other queries' members in this process don't notice.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Self

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.shell.agent.agent_config import AgentConfig
from sparkcohort.runtime.shell.agent.listener_runner import ListenerRunner, patience_ms
from sparkcohort.runtime.shell.agent.member_loop import MemberLoop
from sparkcohort.runtime.shell.agent.member_reports import MemberReports
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.agent.range_service import RangeService
from sparkcohort.runtime.shell.agent.task_server import TaskServer
from sparkcohort.runtime.shell.kafka.fetch import relay
from sparkcohort.runtime.shell.rpc.flight import CoordinatorUnreachable, Link
from sparkcohort.runtime.shell.rpc.threads import BlockingCalls, Supervised, in_context

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.agent.agent import Agent

log = logging.getLogger("sparkcohort.agent")

RECONNECT_S = 0.5
CALLERS = 4
MOST_DECODERS = 8
LISTENER_END_S = 1.0
"""How long a member that ends waits for its listener: its partitions have to be free when its executor is gone."""


class QueryMember:
    """One member of one group; ``host`` hears of its end."""

    def __init__(self, config: AgentConfig, host: Agent) -> None:
        """Nothing is sent before ``start``."""
        self.config, self._host = config, host
        self._link = Link(config.host, config.port, config.credentials)
        self._calls = BlockingCalls(CALLERS)
        reports = MemberReports(config, self._link, self._calls)
        patience = patience_ms(config.rebalance_timeout_ms)
        self._listener = ListenerRunner(config.listener, patience) if config.listener else None
        self._prefetcher = Prefetcher(
            config.kafka,
            columns=config.columns,
            buffer_bytes=config.buffer_bytes,
            threads=min(config.executor.cores, MOST_DECODERS),
            give_up=self.resign,
            report_malformed=reports.report_malformed,
        )
        self._loop = MemberLoop(
            config, self._link, self._calls, reports, self._prefetcher, self._listener, lifetime=self
        )
        self._server = TaskServer(
            config.address,
            config.credentials.token,
            self._prefetcher,
            RangeService(config, min(config.executor.cores, MOST_DECODERS), self._read_by_driver),
            self._loop.post_served,
            self._link.call,
            host.fail,
        )
        self._events = Supervised("cohort-events", lambda: True, self._follow_events, self.resign)
        self._ending = threading.Lock()
        self._has_ended = False

    def start(self) -> Self:
        """Start serving.  Raises OSError where another process has its socket's name."""
        self._server.start()
        self._events.start()
        self._loop.start()
        return self

    def _read_by_driver(self, body: bytes) -> bytes:
        return self._link.call("Read", body, relay.CALL_S)

    def _follow_events(self) -> None:
        try:
            for event in self._link.events(self.config.address.encode()):
                self._events.mark_success()
                if event:
                    self._loop.post_event(calls.decode(event, calls.PushEvent))
        except CoordinatorUnreachable:
            self._loop.post_unreachable("Events")
        time.sleep(RECONNECT_S)

    def resign(self, error: CohortError) -> None:
        """A member that can't do its work ends: the next task on this executor has another take its place."""
        self.end(str(error), leave=True)

    def end(self, reason: str, *, leave: bool, partitions_lost: bool = False) -> None:
        """Begin to end, from any thread; ``leave``: leave the group first.  A second call does nothing."""
        with self._ending:
            if self._has_ended:
                return
            self._has_ended = True
        log.info("ending: %s", reason)
        try:
            ending = in_context(self._close, reason, leave, partitions_lost)
            threading.Thread(target=ending, name="cohort-ending", daemon=True).start()
        except (RuntimeError, MemoryError) as error:
            self._host.fail(f"no thread to end a member in: {error}")

    def _close(self, reason: str, leave: bool, partitions_lost: bool) -> None:
        self._loop.stop()
        try:
            if self._listener:  # its last call is the revocation that the member asks for
                self._listener.close(self._loop.owned, LISTENER_END_S, are_lost=partitions_lost)
            if leave:
                self._loop.leave_group(reason)
            self._server.close()
            self._events.close()
            self._link.close()
            self._calls.close()
            self._prefetcher.close()
            if self._loop.is_alive():
                raise TimeoutError("its loop does not end")  # noqa: TRY301
        except Exception as error:
            log.exception("this member can't be ended")
            self._host.fail(f"a member can't be ended: {error}")
        else:
            self._host.on_member_ended(self)
