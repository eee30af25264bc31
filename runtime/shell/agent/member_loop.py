"""A query's member as the group knows it: its machine, in a thread of its own; blocking calls run in others.

It is a static member (KIP-345), named after its executor: the successor of a crashed one takes its place, with its partitions
and without a rebalance.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkcohort.runtime.group import member_machine as machine
from sparkcohort.runtime.group import member_state
from sparkcohort.runtime.group.member_state import timeout_ms
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.messages import REPLIES, OffsetFetchReply, ProcessInfo, Request, Tick
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.agent_config import AgentConfig
from sparkcohort.runtime.shell.agent.listener_runner import ListenerRunner
from sparkcohort.runtime.shell.agent.member_positions import MemberPositions
from sparkcohort.runtime.shell.agent.member_reports import MemberReports
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.rpc.clock import now_ms
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused, CoordinatorUnreachable, Link
from sparkcohort.runtime.shell.rpc.threads import BlockingCalls, Supervised

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.agent.query_member import QueryMember

log = logging.getLogger("sparkcohort.agent")

LOOK_MS = 1_000
LOOP_END_S = 2.0
"""How long a member that ends waits for its machine's current step."""
GOODBYE_S = 2.0
FIRST_CONTACT_S = 5.0
"""Patience of a member whose coordinator never answered it: a task of it ran a moment ago, so the query has ended since."""


class MemberLoop:
    """One member of one group; ``lifetime.end`` is called when it has to end."""

    def __init__(
        self,
        config: AgentConfig,
        link: Link,
        blocking: BlockingCalls,
        reports: MemberReports,
        prefetcher: Prefetcher,
        listener: ListenerRunner | None,
        lifetime: QueryMember,
    ) -> None:
        """Nothing is sent before ``start``."""
        self._config, self._link, self._calls, self._reports = config, link, blocking, reports
        self._prefetcher, self._listener, self._lifetime = prefetcher, listener, lifetime
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._member = member_state.Member(_member_config(config, ()))
        self._positions = MemberPositions()
        self._revocation = 0  # counts them: only the latest one's end is the member's concern
        self._unreachable_since: float | None = None
        self._is_between_runs = False  # its query has ended, and may be started again
        self._thread = Supervised("cohort-member", lambda: True, self._run_once, lifetime.resign, amend=self._crash)

    # --- from any thread --------------------------------------------------------------------------

    def start(self) -> None:
        """Start its thread."""
        self._thread.start()

    def post_event(self, pushed: calls.PushEvent) -> None:
        """The coordinator has pushed an event."""
        self._inbox.put(partial(self._on_event, pushed))

    def post_unreachable(self, kind: str) -> None:
        """A call of this kind got no answer."""
        self._inbox.put(partial(self._on_unreachable, kind))

    def post_served(self, ranges: Sequence[Range]) -> None:
        """These ranges were handed over."""
        self._inbox.put(lambda: self._positions.add_served(ranges, now_ms()))

    @property
    def owned(self) -> Collection[TopicPartition]:
        """The partitions that it owns."""
        return self._member.owned

    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End its thread, and wait for that for a moment."""
        self._thread.close()
        self._inbox.put(lambda: None)
        self._thread.join(LOOP_END_S)

    def leave_group(self, reason: str) -> None:
        """Send the machine's last requests, in the caller's thread; its own has ended."""
        member, actions = machine.step(self._member, member_state.Stop(reason), now_ms())
        actions += machine.step(member, member_state.RevocationDone(), now_ms())[1]
        for request in (action.request for action in actions if isinstance(action, member_state.Send)):
            try:
                self._link.call(type(request).__name__, calls.encode(request), GOODBYE_S)
            except (CoordinatorUnreachable, CoordinatorRefused):
                log.info("could not say good-bye: the session will expire")

    # --- the loop ---------------------------------------------------------------------------------

    def _run_once(self) -> None:
        due = [self._reports.due_ms(), *self._positions.due_ms(), machine.deadline(self._member)]
        wait_ms = min(each for each in due if each is not None) - now_ms()
        with contextlib.suppress(queue.Empty):
            self._inbox.get(timeout=min(max(wait_ms, 0), LOOK_MS) / 1000)()
        now = now_ms()
        deadline = machine.deadline(self._member)
        if deadline is not None and deadline <= now:
            self._drive(Tick())
        if (question := self._positions.due_question(now)) is not None:
            self._send(question)
        if (served := self._positions.take_due_commits(now)) and (commit := member_state.commit(self._member, served)):
            self._send(commit)
        self._reports.report_due(self._prefetcher, self._member.member_id, now)

    def _crash(self) -> None:
        """After an error of the loop the member's state is unknown: its successor starts from the group's."""
        self._lifetime.end("its own loop failed", leave=False)

    def _drive(self, event: member_state.MemberEvent) -> None:
        self._member, actions = machine.step(self._member, event, now_ms())
        for action in actions:
            match action:
                case member_state.Send(request):
                    self._send(request)
                case member_state.Assigned(added):
                    log.info("assigned %s", _names(added))
                    self._positions.add(added)
                    if self._listener:
                        self._listener.call_assigned(added)
                case member_state.Revoke(partitions):
                    log.info("revoked %s", _names(partitions))
                    self._revoke(partitions)
                case member_state.PartitionsLost(partitions):
                    log.warning("lost %s", _names(partitions))
                    self._drop_partitions(partitions)
                    if self._listener:
                        self._listener.call_lost(partitions)
                case member_state.ComputeAssignment(generation=generation):
                    # Only a group without its driver elects an agent; no member gets partitions until the driver is back.
                    self._drive(member_state.AssignmentComputed((), generation))
                case member_state.Failed(error, message):
                    self._lifetime.end(f"the group refused this member for good: {error.name} {message}", leave=False)

    def _revoke(self, partitions: Collection[TopicPartition]) -> None:
        self._drop_partitions(partitions)
        self._revocation += 1
        done = partial(self._inbox.put, partial(self._on_revoked, self._revocation))
        if self._listener:
            self._listener.call_revoked(partitions, done)
        else:
            done()

    def _on_revoked(self, revocation: int) -> None:
        if revocation == self._revocation:  # a revocation that the loss of all partitions overtook may end late
            self._drive(member_state.RevocationDone())

    def _drop_partitions(self, partitions: Collection[TopicPartition]) -> None:
        self._positions.drop(partitions)
        self._prefetcher.revoke(partitions)

    # --- the coordinator --------------------------------------------------------------------------

    def _send(self, request: Request) -> None:
        # A call that fails for any reason counts as unreachable: the machine repeats it, and would else wait for ever.
        self._calls.submit(partial(self._call, request), partial(self.post_unreachable, type(request).__name__))

    def _call(self, request: Request) -> None:
        kind = type(request).__name__
        try:
            answer = self._link.call(kind, calls.encode(request), timeout_ms(self._member.config, request) / 1000)
            reply: Any = calls.decode(answer, REPLIES[type(request)])
        except CoordinatorUnreachable:
            self.post_unreachable(kind)
        except CoordinatorRefused as error:
            self._lifetime.end(str(error), leave=False, partitions_lost=True)
        else:
            self._inbox.put(partial(self._on_reply, request, reply))

    def _on_reply(self, request: Request, reply: Any) -> None:
        self._unreachable_since, self._is_between_runs = None, False
        if isinstance(reply, OffsetFetchReply):
            self._prefetcher.assign(self._positions.add_answer(reply))
        else:
            self._drive(member_state.Replied(reply, request))

    def _on_unreachable(self, kind: str) -> None:
        # Counted from the first failed call, not from the last success: a process that was frozen and thaws
        # has an old last success although the coordinator may be well.
        now, session_s = time.monotonic(), self._config.session_timeout_ms / 1000
        self._unreachable_since = self._unreachable_since or now
        patience_s = session_s if self._member.joins else min(FIRST_CONTACT_S, session_s)
        if now - self._unreachable_since <= patience_s:
            self._drive(member_state.Unreachable(kind))
        elif self._is_between_runs:
            self._lifetime.end(f"the query has ended, and was not started again within {patience_s:g} s", leave=False)
        else:
            reason = f"the coordinator has been unreachable for {patience_s:g} s"
            self._lifetime.end(reason, leave=False, partitions_lost=True)

    def _on_event(self, pushed: calls.PushEvent) -> None:
        self._unreachable_since = None
        if pushed.event == "stop":
            self._lifetime.end("the coordinator ended", leave=False)
        elif pushed.event == "restart":
            log.info(
                "the query has ended: its next run has %d ms to take this member over", self._config.session_timeout_ms
            )
            self._is_between_runs = True
        elif not self._member.joins:
            self._member = member_state.Member(_member_config(self._config, pushed.topics))
            self._drive(member_state.Start())
        elif pushed.topics != self._member.config.topics:
            self._drive(member_state.Resubscribe(pushed.topics))
        elif pushed.event == "rejoin":
            self._drive(member_state.Pushed(pushed.reason, pushed.generation))


def _member_config(config: AgentConfig, topics: tuple[str, ...]) -> member_state.MemberConfig:
    executor = config.executor
    process = ProcessInfo(executor.executor_id, executor.host, executor.cores, os.getpid(), config.address)
    return member_state.MemberConfig(
        client_id=f"executor-{executor.executor_id}",
        client_host=executor.host,
        group_instance_id=executor.instance_id(),
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        rebalance_timeout_ms=config.rebalance_timeout_ms,
        topics=topics,
        assignors=config.assignors,
        rack=config.rack,
        process=process,
    )


def _names(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions))
