"""A query's member in the agent of an executor: a member of its group, with all that it needs to itself.

It joins the group, owns partitions, prefetches them and hands them to the tasks of its own executor, which find it by a
socket of its own and its run's token; it ends when its coordinator says so, or has been unreachable for a session timeout,
and with the process (``agent``).  So a query that is started again within that time finds it, with its partitions and
buffers.  It is a static member (KIP-345), named after its executor: the successor of a crashed one takes its place, with
its partitions and without a rebalance.  One thread owns the member's machine; blocking calls run in others.  At its end it
closes all that it opened; the other queries' members in this process don't notice.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, Self

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.member import machine
from sparkcohort.runtime.member.state import timeout_ms
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.codec import decode, encode
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import (
    OffsetFetch,
    OffsetFetchReply,
    Request,
    Tick,
)
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.agent_config import AgentConfig
from sparkcohort.runtime.shell.agent.listener_runner import ListenerRunner, patience_ms
from sparkcohort.runtime.shell.agent.member_reports import MemberReports
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.agent.task_server import TaskServer
from sparkcohort.runtime.shell.kafka.fetch.leader_probe import probe_leaders
from sparkcohort.runtime.shell.rpc.clock import now_ms
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused, CoordinatorUnreachable, Link
from sparkcohort.runtime.shell.rpc.threads import BlockingCalls, Supervised, in_context

log = logging.getLogger("sparkcohort.agent")

POSITION_RETRY_MS = 1_000
COMMIT_DELAY_MS = 20
WAITS_MS = 250
"""How often an agent reports the waits of tasks: the driver has to know a late partition before it plans the next batch."""
FETCHED_S = 5.0
"""How long the coordinator may take to answer: it tries the leader by itself first."""
TRY_MS = 2_000
"""How often an agent tries leaders that did not answer it."""
RECONNECT_S = 0.5
CALLERS = 4
MOST_DECODERS = 8
LOOP_END_S = 2.0
"""How long a member that ends waits for its machine's current step."""
LISTENER_END_S = 1.0
"""How long a member that ends waits for its listener: its partitions have to be free when its executor is gone."""
FIRST_CONTACT_S = 5.0
"""Patience of a member whose coordinator never answered it: a task of it ran a moment ago, so the query has ended since."""


class Host(Protocol):
    """The process that has the member."""

    def on_member_ending(self, member: QueryMember, /) -> None:
        """It has begun to end; ``on_member_ended`` follows soon, or something is wrong with it."""

    def on_member_ended(self, member: QueryMember, /) -> None:
        """It has released all that it had."""

    def fail(self, reason: str, /) -> None:
        """Only a new process can recover from this."""


class QueryMember:
    """One member of one group; ``host`` hears of its end."""

    def __init__(self, config: AgentConfig, host: Host, on_contact: Callable[[], None] = lambda: None) -> None:
        """Nothing is sent before ``start``; ``on_contact`` is called at the coordinator's first push."""
        self._host, self._on_contact = host, on_contact
        self._config = config
        self._link = Link(config.host, config.port, config.credentials)
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._calls = BlockingCalls(CALLERS)
        self._job: Callable[[], None] | None = None
        self._member = machine.new_member(self._member_config(()))
        self._started = False
        self._unreachable_since: float | None = None
        self._between_runs = False
        self._unpositioned: set[TopicPartition] = set()
        self._next_positions_ms = 0
        self._served: dict[TopicPartition, int] = {}  # handed over, not committed yet
        self._commit_due_ms: int | None = None
        self._reports = MemberReports(self._link, self._calls, config.load_window_ms)
        self._waits_due_ms = 0
        self._followed: frozenset[TopicPartition] = frozenset()  # late ones, which are reported to the coordinator
        self._barred: Mapping[TopicPartition, int] = {}  # whose leaders don't answer, and from where to try them
        self._try_due_ms = 0
        self._revocation = 0  # counts them: only the latest one's end is the member's concern
        self._ending = threading.Lock()
        self._has_ended = False
        self._loop = Supervised("cohort-member", self._await_job, self._work, self._resign, amend=self._crash)
        self._pause, self._listened = threading.Event(), False
        self._events = Supervised("cohort-events", self._wait_to_listen, self._listen, self._resign)
        self._listening = (
            ListenerRunner(config.listener, patience_ms(config.rebalance_timeout_ms), self._reports.report_listener)
            if config.listener
            else None
        )
        self._prefetcher = Prefetcher(
            config.kafka,
            columns=config.columns,
            buffer_bytes=config.buffer_bytes,
            threads=min(config.executor.cores, MOST_DECODERS),
            give_up=self._resign,
            tell_bad=self._reports.report_malformed,
        )
        self._server = TaskServer(
            config.address, config.credentials.token, self._prefetcher, self._on_served, self._link.call, host.fail
        )

    def _member_config(self, topics: tuple[str, ...]) -> machine.MemberConfig:
        config, executor = self._config, self._config.executor
        info = {
            "executor": executor.executor_id,
            "host": executor.host,
            "cores": executor.cores,
            "pid": os.getpid(),
            "address": config.address,
        }
        return machine.MemberConfig(
            client_id=f"executor-{executor.executor_id}",
            client_host=executor.host,
            group_instance_id=executor.instance_id(),
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            topics=topics,
            assignors=config.assignors,
            rack=config.rack,
            user_data=json.dumps(info, separators=(",", ":")).encode(),
            leave_on_stop=True,  # static, but its executor is gone: no successor takes the slot
        )

    # --- the loop ---------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start serving.  Raises AlreadyRunning where another process has its socket's name."""
        self._server.start()
        self._events.start()
        self._loop.start()
        return self

    def _await_job(self) -> bool:
        now = now_ms()
        deadlines = (machine.deadline(self._member), self._positions_due(), self._commit_due_ms)
        due = [self._waits_due_ms, self._reports.due_ms(), *(due_ms for due_ms in deadlines if due_ms is not None)]
        self._job = None
        with contextlib.suppress(queue.Empty):
            self._job = self._inbox.get(timeout=min(max(min(due, default=now + 1000) - now, 0), 1000) / 1000)
        return True

    def _work(self) -> None:
        if self._job is not None:
            self._job()
        self._tick()

    def _resign(self, error: CohortError) -> None:
        """A member that can't do its work ends: the next task on this executor has another take its place."""
        self._end(str(error), leave=True)

    def _crash(self) -> None:
        """After an error of the loop the member's state is unknown: its successor starts from the group's."""
        self._end("its own loop failed", leave=False)

    def _tick(self) -> None:
        now = now_ms()
        deadline = machine.deadline(self._member)
        if deadline is not None and deadline <= now:
            self._drive(Tick())
        due = self._positions_due()
        if due is not None and due <= now:
            self._fetch_positions()
        if self._commit_due_ms is not None and self._commit_due_ms <= now:
            self._commit()
        if self._waits_due_ms <= now:
            self._report_waits(now)
        if self._reports.due_ms() <= now:
            self._reports.report_due(self._prefetcher, self._member.member_id, now)
        if self._barred and self._try_due_ms <= now:
            self._try_leaders(now)

    def _drive(self, event: machine.MemberEvent) -> None:
        self._member, actions = machine.step(self._member, event, now_ms())
        for action in actions:
            match action:
                case machine.Send(request):
                    self._send(request)
                case machine.Assigned(added):
                    log.info("assigned %s", _names(added))
                    self._unpositioned |= set(added)
                    self._fetch_positions()
                    if self._listening:
                        self._listening.call_assigned(added)
                case machine.Revoke(partitions):
                    log.info("revoked %s", _names(partitions))
                    self._revoke(partitions)
                case machine.PartitionsLost(partitions):
                    log.warning("lost %s", _names(partitions))
                    self._drop_partitions(partitions)
                    if self._listening:
                        self._listening.call_lost(partitions)
                case machine.ComputeAssignment(generation=generation):
                    # Only a group without its driver elects an agent; no member gets partitions until the driver is back.
                    self._drive(machine.AssignmentComputed((), generation))
                case machine.Failed(error, message):
                    self._end(f"the group refused this member for good: {error.name} {message}", leave=False)

    def _revoke(self, partitions: Collection[TopicPartition]) -> None:
        self._drop_partitions(partitions)
        self._revocation += 1
        done = partial(self._inbox.put, partial(self._on_revoked, self._revocation))
        if self._listening:
            self._listening.call_revoked(partitions, done)
        else:
            done()

    def _on_revoked(self, revocation: int) -> None:
        if revocation == self._revocation:  # a revocation that the loss of all partitions overtook may end late
            self._drive(machine.RevocationDone())

    def _report_waits(self, now_ms: int) -> None:
        """Report the waits of tasks, if there are any, and the progress of late partitions; the answer names those."""
        self._waits_due_ms = now_ms + WAITS_MS
        waits, silent = self._prefetcher.waits(self._followed), self._prefetcher.silent()
        if not (waits or silent) or not self._member.member_id:
            return
        fetched = tuple(calls.WaitedFor(*tp, *each) for tp, each in sorted(waits.items()))
        unanswered = tuple(calls.Silent(*tp, *each) for tp, each in sorted(silent.items()))
        self._calls.submit(partial(self._report_fetched, calls.Fetched(self._member.member_id, fetched, unanswered)))

    def _report_fetched(self, report: calls.Fetched) -> None:
        """Report the positions of fetching; the answer names late partitions and leaders to be tried."""
        with contextlib.suppress(CoordinatorUnreachable, CoordinatorRefused):
            reply = calls.decode(self._link.call("Fetched", calls.encode(report), FETCHED_S), calls.FetchedReply)
            barred = {TopicPartition(each.topic, each.partition): each.position for each in reply.barred}
            self._inbox.put(partial(self._follow, reply.late, barred))

    def _follow(self, late: Sequence[TopicPartition], barred: Mapping[TopicPartition, int]) -> None:
        self._followed, self._barred = frozenset(late), barred

    def _try_leaders(self, now_ms: int) -> None:
        """Try the leaders that didn't answer, and report those that do now."""
        self._try_due_ms = now_ms + TRY_MS
        barred = dict(self._barred)

        def attempt() -> None:
            reached_partitions = probe_leaders(self._config.kafka, barred, TRY_MS / 2000)
            self._report_fetched(calls.Fetched(self._member.member_id, (), (), tuple(sorted(reached_partitions))))

        self._calls.submit(attempt)

    def _drop_partitions(self, partitions: Any) -> None:
        self._unpositioned -= set(partitions)
        self._prefetcher.revoke(partitions)

    # --- calls to the coordinator -------------------------------------------------------------------

    def _send(self, request: Request) -> None:
        if self._has_ended:
            return
        kind = type(request).__name__
        # A call that fails for any reason counts as unreachable: the machine repeats it, and would else wait for ever.
        self._calls.submit(partial(self._call, request), lambda: self._inbox.put(lambda: self._on_unreachable(kind)))

    def _call(self, request: Request) -> None:
        kind = type(request).__name__
        try:
            reply: Any = decode(self._link.call(kind, encode(request), timeout_ms(self._member.config, request) / 1000))
        except CoordinatorUnreachable:
            self._inbox.put(lambda: self._on_unreachable(kind))
        except CoordinatorRefused as error:
            reason = str(error)
            self._inbox.put(lambda: self._end(reason, leave=False, partitions_lost=True))
        else:
            self._inbox.put(lambda: self._on_reply(request, reply))

    def _on_reply(self, request: Request, reply: Any) -> None:
        self._unreachable_since, self._between_runs = None, False
        if isinstance(reply, OffsetFetchReply):
            self._on_positions(reply)
        else:
            self._drive(machine.Replied(reply, request))

    def _on_unreachable(self, kind: str) -> None:
        # Counted from the first failed call, not from the last success: a process that was frozen and thaws
        # has an old last success although the coordinator may be well.
        now = time.monotonic()
        self._unreachable_since = self._unreachable_since or now
        session_s = self._config.session_timeout_ms / 1000
        patience_s = session_s if self._started else min(FIRST_CONTACT_S, session_s)
        if now - self._unreachable_since > patience_s and self._between_runs:
            self._end(f"the query has ended, and was not started again within {patience_s:g} s", leave=False)
            return
        if now - self._unreachable_since > patience_s:
            self._end(f"the coordinator has been unreachable for {patience_s:g} s", leave=False, partitions_lost=True)
            return
        self._drive(machine.Unreachable(kind))

    def _wait_to_listen(self) -> bool:
        if self._listened:
            self._pause.wait(RECONNECT_S)
        self._listened = True
        return True

    def _listen(self) -> None:
        try:
            for event in self._link.events(self._config.address.encode()):
                self._events.mark_success()
                if event:
                    self._inbox.put(partial(self._on_event, calls.decode(event, calls.PushEvent)))
        except CoordinatorUnreachable:
            self._inbox.put(lambda: self._on_unreachable("Events"))

    def _on_event(self, pushed: calls.PushEvent) -> None:
        self._unreachable_since = None
        if pushed.event == "stop":
            self._end("the coordinator ended", leave=False)
        elif pushed.event == "restart":
            log.info(
                "the query has ended: its next run has %d ms to take this member over", self._config.session_timeout_ms
            )
            self._between_runs = True
        elif not self._started:
            self._started = True
            self._on_contact()
            self._member = machine.new_member(self._member_config(pushed.topics))
            self._drive(machine.Start())
        elif pushed.topics != self._member.config.topics:
            self._drive(machine.Resubscribe(pushed.topics))
        elif pushed.event == "rejoin":
            self._drive(machine.Pushed(pushed.reason, pushed.generation))

    # --- positions ------------------------------------------------------------------------------------

    def _positions_due(self) -> int | None:
        return self._next_positions_ms if self._unpositioned else None

    def _fetch_positions(self) -> None:
        self._next_positions_ms = now_ms() + POSITION_RETRY_MS
        if self._unpositioned:
            self._send(OffsetFetch(tuple(sorted(self._unpositioned))))

    def _on_positions(self, reply: OffsetFetchReply) -> None:
        positions = {tp: offset for tp, offset in reply.offsets if offset >= 0 and tp in self._unpositioned}
        if reply.error == ErrorCode.NONE and positions:
            self._unpositioned -= set(positions)
            self._prefetcher.assign(positions)

    def _on_served(self, ranges: Sequence[Range]) -> None:
        self._inbox.put(partial(self._served_ranges, ranges))

    def _served_ranges(self, ranges: Sequence[Range]) -> None:
        # One commit for what is handed over within a moment, by whichever of the executor's tasks.
        self._served.update((item.tp, item.end) for item in ranges)
        if self._commit_due_ms is None:
            self._commit_due_ms = now_ms() + COMMIT_DELAY_MS

    def _commit(self) -> None:
        request = machine.commit(self._member, self._served)
        self._served, self._commit_due_ms = {}, None
        if request is not None:
            self._send(request)

    # --- the end --------------------------------------------------------------------------------------

    @property
    def address(self) -> str:
        """The name of its socket."""
        return self._config.address

    def is_of_earlier_run(self, newer: AgentConfig) -> bool:
        """Whether the other, whose run is there, is for a newer run of its query: its own has ended, or doesn't answer."""
        own = self._config
        is_same = (own.group_id, own.group_instance_id) == (newer.group_id, newer.group_instance_id)
        return is_same and (self._between_runs or self._unreachable_since is not None)

    def end_for_newer_run(self) -> None:
        """End without leaving the group: a member for a newer run of the same query is here."""
        self._end("a member for a newer run of its group has come", leave=False)

    def leave(self, reason: str) -> None:
        """Leave the group and end, without waiting for it; from any thread."""
        self._end(reason, leave=True)

    def _end(self, reason: str, *, leave: bool, partitions_lost: bool = False) -> None:
        """Begin to end; a second call does nothing."""
        with self._ending:
            if self._has_ended:
                return
            self._has_ended = True
        log.info("ending: %s", reason)
        self._host.on_member_ending(self)
        try:
            ending = in_context(self._close, reason, leave, partitions_lost)
            threading.Thread(target=ending, name="cohort-ending", daemon=True).start()
        except (RuntimeError, MemoryError) as error:
            self._host.fail(f"no thread to end a member in: {error}")

    def _close(self, reason: str, leave: bool, partitions_lost: bool) -> None:
        """Leave the group if asked to, and close everything."""
        self._loop.close()
        self._inbox.put(_wake)
        self._loop.join(LOOP_END_S)
        try:
            if self._listening:  # its last call is the revocation that the member asks for
                self._listening.close(self._member.owned, LISTENER_END_S, are_lost=partitions_lost)
            if leave:
                self._leave_group(reason)
            self._server.close()
            self._events.close()
            self._pause.set()
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

    def _leave_group(self, reason: str) -> None:
        """Send the machine's last requests from here: no other thread of it runs any more."""
        member, actions = machine.step(self._member, machine.Stop(reason), now_ms())
        actions += machine.step(member, machine.RevocationDone(), now_ms())[1]
        for request in (action.request for action in actions if isinstance(action, machine.Send)):
            try:
                self._link.call(type(request).__name__, encode(request), 2.0)
            except (CoordinatorUnreachable, CoordinatorRefused):
                log.info("could not say good-bye: the session will expire")


def _wake() -> None:
    """Wakes the loop."""


def _names(partitions: Any) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions))
