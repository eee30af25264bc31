"""The coordinator: it owns the group, steps it, and carries out what it answers.

The driver is the group's first member and so its leader (``leadership``).  All others come in through ``request`` and ``subscribe``.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial

from sparkcohort.assignors import ASSIGNORS, Assignor, Load, Racks
from sparkcohort.runtime import group as groups
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.group import summary, validation
from sparkcohort.runtime.group.context import error_reply
from sparkcohort.runtime.group.partition_ownership import assigned
from sparkcohort.runtime.group.validation import MemberInfo
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import Cause, Reason, requested
from sparkcohort.runtime.shell.coordinator.group_journal import GroupJournal
from sparkcohort.runtime.shell.coordinator.group_loop import STOP_S, GroupLoop
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.history import History
from sparkcohort.runtime.shell.coordinator.leadership import DRIVER, Leadership, Topics
from sparkcohort.runtime.shell.coordinator.member_directory import MemberDirectory
from sparkcohort.runtime.shell.rpc.flight import EventQueue
from sparkcohort.runtime.text import printable

log = logging.getLogger("sparkcohort.coordinator")


class Coordinator:
    """Runs the group of one query; every public method may be called from any thread."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: Topics,
        partitions: Mapping[str, Sequence[int]] | None = None,
        *,
        assignors: Mapping[str, Assignor] = ASSIGNORS,
        racks: Callable[[], Racks] = dict,
    ) -> None:
        """``topics`` returns topics with partition counts; ``partitions`` are those to read, if not all.

        ``assignors`` has at least those of the settings.  ``racks`` returns where replicas are; a move of replicas causes no
        rebalance, the next one uses it.
        """
        self.settings = settings
        self.group = groups.new_group(settings.group_config())
        self.history = History()
        self.counters: Counter[tuple[str, str]] = Counter()  # refusals by request and error
        self._topics = topics
        self._partition_counts: dict[str, int] = {}
        self._loop = GroupLoop(settings.group_id, self._due, self._tick, self._show_life)
        self._directory = MemberDirectory(settings.group_id, self.history, self._subscribed)
        self.leadership = Leadership(
            settings,
            self._loop,
            topics,
            partitions or {},
            racks,
            assignors,
            group=lambda: self.group,
            send=lambda request: self._receive(request, None),
            name=self._directory.name,
            on_failure=self.history.assignor_failed,
        )
        self._requests: dict[int, tuple[p.Request, Future[p.Reply] | None]] = {}  # None: the driver's own request
        self._correlation = 0
        self._journal: GroupJournal | None = None
        self._for_good = True

    # --- its life -----------------------------------------------------------------------------------

    def start(self, former_group: groups.Group | None = None) -> None:
        """Start the loop; the driver's member joins first, in a new group or in that of the previous run, to go on with."""
        self._partition_counts = dict(self._topics())
        if former_group is not None:
            self.group = former_group
            for member in former_group.members.values():
                self._store_info(member.member_id)
            resume = p.Resume(first := self.settings.first_generation, f"{self.settings.run_id}-{first}")
            with self._loop.lock:  # before any request: parked ones in the journal were the former run's
                self._loop.run(lambda: self._step(resume))
        self._loop.post(self.leadership.start)
        self._loop.start()

    def open_journal(self, journal: GroupJournal) -> None:
        """Write each step to this journal, from now on, before its replies are sent."""
        with self._loop.lock:
            journal.open(self.group)
            self._journal = journal

    def close_journal(self, *, keep: bool) -> None:
        """Stop writing the journal; ``keep`` leaves it to the next run, else it is removed."""
        owns = self._loop.lock.acquire(timeout=STOP_S)  # the loop may be stuck
        if self._journal is not None:
            self._journal.close(keep=keep)
        if owns:
            self._loop.lock.release()

    @property
    def is_kept(self) -> bool:
        """Whether a next run can go on with this group."""
        unloaded = self._loop.has_ended and self._for_good
        return self._journal is not None and self._journal.is_usable and not unloaded

    @property
    def failure(self) -> CohortError | None:
        """The error that ended the loop, if any."""
        return self._loop.failure

    def stop(self, *, for_good: bool = True) -> None:
        """End the loop; parked requests fail, agents end (``for_good``) or wait for the next run."""
        self._for_good = for_good
        self._loop.stop(self._end)

    def _end(self) -> None:
        if self._for_good:  # Kafka: onGroupUnloaded; a group that is taken over stays as it is
            self._step(p.Unload("its query has ended"))
        self._directory.end_streams("stop" if self._for_good else "restart")
        for _, answer in self._requests.values():
            if answer is not None:
                answer.cancel()

    # --- from other threads ------------------------------------------------------------------------

    def request(self, request: p.Request, timeout_s: float) -> p.Reply:
        """The group's reply; parked requests wait for it.  Raises TimeoutError after ``timeout_s``."""
        answer: Future[p.Reply] = Future()
        with self._loop.lock:
            if self._loop.has_ended and not self._for_good:  # a group that is unloaded answers by itself
                raise TimeoutError("the coordinator has ended")
            self._loop.run(partial(self._admit, request, answer))
        try:
            return answer.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(f"no answer within {timeout_s:g} s") from None
        except CancelledError:
            raise TimeoutError("the coordinator has ended") from None

    def subscribe(self, address: str) -> EventQueue:
        """The queue of the events for the agent at this address; the first one has the topics."""
        address = address[: p.MAX_NAME]
        with self._loop.lock:  # no change of topics falls in between, and no join of this agent comes before
            events = self._directory.add_stream(address)
            # The rebalance of a restarted coordinator is pushed to a new listener: its next heartbeat would be later.
            phase = self.group.rebalance
            if phase is not None and phase.reason.cause is Cause.COORDINATOR_RESTARTED:
                member_id = self._directory.member_at(address)
                if member_id not in self.group.joins:
                    self._directory.push_rejoin(member_id, str(phase.reason), self.group.generation)
        return events

    def unsubscribe(self, events: EventQueue) -> None:
        """Forget a queue."""
        self._loop.post(lambda: self._directory.remove_stream(events))

    def topics_changed(self) -> None:
        """Topics or partition counts may have changed; a rebalance follows if they did."""
        self._loop.post(self._on_topics_changed)

    def trigger(self, reason: str) -> None:
        """Ask for a rebalance (KIP-568)."""
        self._loop.post(lambda: self._step(p.Trigger(requested(reason))))

    def record_loads(self, member_id: str, loads: Mapping[TopicPartition, Load]) -> bool:
        """Take a member's report of its loads; false without the load-balanced assignor, or for an unknown member."""
        balancing = self.leadership.balancing
        with self._loop.lock:
            if balancing is None or member_id not in self.group.members:
                return False
            balancing.on_load_report(groups.owned(self.group, member_id), loads)
            self.leadership.check_imbalance()
            return True

    def members(self) -> dict[str, MemberInfo]:
        """The live members that are agents, by member id."""
        return self._directory.present(self.group)

    @property
    def now_ms(self) -> int:
        """The group's own time, as of the last event."""
        return self._loop.now_ms

    def owners(self) -> Mapping[TopicPartition, str]:
        """The owner of each partition."""
        return groups.owners(self.group)

    # --- with the lock ------------------------------------------------------------------------------------

    def _due(self) -> int | None:
        times = (groups.deadline(self.group), self.leadership.due())
        return min((due_ms for due_ms in times if due_ms is not None), default=None)

    def _tick(self) -> None:
        due = groups.deadline(self.group)
        if due is not None and due <= self.now_ms:
            self._step(p.Tick())
        if (reason := self.leadership.tick()) is not None:
            self._step(p.Trigger(reason))

    def _show_life(self) -> None:
        if self._journal is not None:
            self._journal.alive()

    def _admit(self, request: p.Request, answer: Future[p.Reply]) -> None:
        """Check a join and step the group."""
        if isinstance(request, p.JoinGroup):
            try:
                request = validation.check_join(request, self.settings.assignors, self.settings.rebalance_timeout_ms)
            except validation.Refusal as refusal:
                self.counters["JoinGroup", refusal.error.name] += 1
                name, host = (printable(text, p.MAX_NAME) for text in (request.group_instance_id, request.client_host))
                if self._directory.limit.is_new(name, host, refusal.error, now_ms=self.now_ms):
                    log.warning(
                        "group %s: refused JoinGroup of %s on %s: %s", self.settings.group_id, name, host, refusal
                    )
                answer.set_result(error_reply(request, refusal.error, str(refusal)))
                return
        self._receive(request, answer)

    def _receive(self, request: p.Request, answer: Future[p.Reply] | None) -> None:
        self._correlation += 1
        self._requests[self._correlation] = request, answer
        self._step(p.Received(self._correlation, request))

    def _step(self, event: p.Event) -> None:
        decision = groups.step(self.group, event, self.now_ms)
        self.group = decision.group
        if self._journal is not None:
            self._journal.append(decision.records, self.group)
        self.history.add_step(self.group, decision.records, self.now_ms)
        for action in decision.actions:
            try:
                self._carry_out(action)
            except Exception:  # one member's data must not cost the others their replies
                log.exception("group %s: %s was not carried out", self.settings.group_id, type(action).__name__)

    def _carry_out(self, action: p.Action) -> None:
        match action:
            case p.Answer(correlation, reply):
                self._answer(correlation, reply)
            case p.PushRejoin(member_id, reason, generation):
                if not self.leadership.on_push(member_id, reason, generation):
                    self._directory.push_rejoin(member_id, reason, generation)
            case p.Refused(request, error, member_id, partitions):
                self.counters[request, error.name] += partitions
                if self._directory.limit.is_new(request, error, member_id, now_ms=self.now_ms):
                    name = printable(member_id, p.MAX_NAME)
                    log.info("group %s: refused %s of %s: %s", self.settings.group_id, request, name, error.name)
            case p.Rebalanced():
                self._rebalanced(action)
            case p.Removed(member_id, reason):
                name = self._directory.name(member_id)
                log.info("group %s: member %s removed: %s", self.settings.group_id, name, reason)

    def _answer(self, correlation: int, reply: p.Reply) -> None:
        request, answer = self._requests.pop(correlation)
        if isinstance(reply, p.JoinGroupReply) and reply.error == ErrorCode.NONE:
            self._store_info(reply.member_id)
        if answer is None:
            self.leadership.on_reply(reply, request)
        else:
            answer.set_result(reply)

    def _rebalanced(self, done: p.Rebalanced) -> None:
        group, name = self.group, self._directory.name
        revoking = {
            tp: member_id
            for member_id in group.assignments
            for tp in groups.owned(group, member_id).keys() - assigned(group, member_id)
        }
        entry = self.history.rebalanced(done, revoking)
        has_partitions = any(done.previous_assignment.values())
        level = logging.INFO if self.members() or has_partitions else logging.DEBUG  # its own join
        log.log(level, "group %s: %s", self.settings.group_id, summary.line(done, entry.routes, revoking, name))

    def _on_topics_changed(self) -> None:
        topics = dict(self._topics())
        if topics == self._partition_counts:
            return
        former, self._partition_counts = self._subscribed(), topics
        if former != self._subscribed():  # before the push to rejoin, so that every member joins once
            self._directory.push_topics()
        self._step(p.Trigger(Reason(Cause.TOPICS_CHANGED)))

    def _subscribed(self) -> tuple[str, ...]:
        return tuple(sorted(self._partition_counts))

    def _store_info(self, member_id: str) -> None:
        member = self.group.members[member_id]
        if member.group_instance_id != DRIVER:
            waited_for = self.leadership.runner.leader_state.scheduled.missing
            self._directory.store(member, self.group, waited_for, self.now_ms)
