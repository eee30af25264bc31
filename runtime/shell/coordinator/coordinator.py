"""The coordinator: it owns the group, steps it, and carries out what it answers.

The thread that brings a request steps it while it holds the lock: to hand it to another thread and wait for the answer costs
more than the step.  All other work runs on the loop.  The driver is the group's first member and so its leader; it lives in
the loop and talks to the group without a network.  All others come in through ``request`` and ``subscribe``.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial

from sparkcohort.assignors import ASSIGNORS, Assignor, Load, Racks
from sparkcohort.runtime import group as groups
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.group import summary, validation
from sparkcohort.runtime.group.validation import MemberInfo
from sparkcohort.runtime.leader import assignment as leader
from sparkcohort.runtime.leader import delayed_rebalance
from sparkcohort.runtime.member import machine
from sparkcohort.runtime.protocol.consumer_protocol import ConsumerEmbedded
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import (
    Action,
    Answer,
    JoinedMember,
    JoinGroup,
    JoinGroupReply,
    LeaveGroup,
    PushRejoin,
    Rebalanced,
    Received,
    Refused,
    Removed,
    Reply,
    Request,
    Resume,
    Tick,
    Trigger,
    Unload,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import Cause, Reason, requested
from sparkcohort.runtime.shell.coordinator import admission, load_watch
from sparkcohort.runtime.shell.coordinator.assignor_runner import AssignorRunner
from sparkcohort.runtime.shell.coordinator.clock import Clock
from sparkcohort.runtime.shell.coordinator.event_streams import EventStreams
from sparkcohort.runtime.shell.coordinator.group_journal import GroupJournal
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.history import History
from sparkcohort.runtime.shell.coordinator.totals import ListenerTotals, RebalanceTotals
from sparkcohort.runtime.shell.rpc.flight import EventQueue
from sparkcohort.runtime.shell.rpc.threads import Supervised

log = logging.getLogger("sparkcohort.coordinator")

STOP_S = 1.5
DRIVER = "driver"
"""The instance id of the driver's own member, the leader; a takeover of it would end the group (``is_driver``)."""


class Coordinator:
    """Runs the group of one query; every public method may be called from any thread."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: Callable[[], Mapping[str, int]],
        partitions: Mapping[str, Sequence[int]] | None = None,
        *,
        assignors: Mapping[str, Assignor] = ASSIGNORS,
        racks: Callable[[], Racks] = dict,
        former_group: groups.Group | None = None,
    ) -> None:
        """``topics`` returns topics with partition counts; ``partitions`` are those to read, if not all.

        ``assignors`` has at least those of the settings.  ``racks`` returns where replicas are; a move of replicas causes no
        rebalance, the next one uses it.  ``former_group`` is the previous run's group, to go on with.
        """
        self.settings = settings
        self._topics = topics
        self._partitions = partitions or {}
        self.racks = racks
        self._partition_counts: dict[str, int] = {}
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._owning = threading.Lock()
        self._clock = Clock()
        self._waits_ms = 0  # the length of the loop's current wait,
        self._wakes_at_ms = 0  # and its end by the group's clock
        self._due_ms = 0  # when the loop has to wake up at the latest
        self._ended = False
        self._requests: dict[int, tuple[Request, Future[Reply] | None]] = {}  # None: the driver's own request
        self._correlation = 0
        self._streams = EventStreams(self._subscribed)
        self._infos: dict[str, MemberInfo] = {}
        self.history = History()
        self.rebalance_totals, self.listener_totals = RebalanceTotals(), ListenerTotals()
        self.counters: Counter[tuple[str, str]] = Counter()
        self.partitions_moved = 0
        self.barred: Callable[[], leader.Barred] = dict  # partitions that members can't fetch
        self._door = admission.Admission(settings.group_id, settings.assignors, settings.rebalance_timeout_ms)
        self.group = former_group or groups.new_group(settings.group_config(), ConsumerEmbedded())
        self._resumes = former_group is not None
        self._journal: GroupJournal | None = None
        self._for_good = True
        self._driver = machine.new_member(self._driver_config())
        weighs = load_watch.NAME in settings.assignors
        self.balancing = load_watch.LoadWatch(*settings.load_balance) if weighs else None
        self.leading = AssignorRunner(
            settings.group_id,
            assignors,
            settings.rebalance_timeout_ms,
            settings.scheduled_rebalance_max_delay_ms,
            self.balancing,
            now=lambda: self._clock.now_ms,
            post=self._inbox.put,
            done=self._apply_assignments,
        )
        self._awaited: tuple[str, ...] = ()  # departed members that were logged
        self._job: Callable[[], None] | None = _do_nothing
        self.failure: CohortError | None = None  # the error that ended the loop, if any
        self._thread = Supervised("cohort-coordinator", self._wait, self._work, self._fail)

    def _driver_config(self) -> machine.MemberConfig:
        return machine.MemberConfig(
            client_id="driver",
            client_host="driver",
            group_instance_id=DRIVER,
            session_timeout_ms=self.settings.session_timeout_ms,
            heartbeat_interval_ms=self.settings.heartbeat_interval_ms,
            rebalance_timeout_ms=self.settings.rebalance_timeout_ms,
            topics=(),
            assignors=self.settings.assignors,
        )

    # --- from other threads ------------------------------------------------------------------------

    def start(self) -> None:
        """Start the loop; the driver's member joins first, in a new group or the former one."""
        self._partition_counts = dict(self._topics())
        if self._resumes:
            for name, member in self.group.members.items():  # from the metadata of their JoinGroups
                self._store_info(validation.last_join(member), name)
            resume = Resume(first := self.settings.first_generation, f"{self.settings.run_id}-{first}")
            with self._owning:  # before any request: parked ones in the journal were the former run's
                self._run_job(lambda: self._step(resume))
        self._inbox.put(lambda: self._step_driver(machine.Start()))
        self._thread.start()

    def open_journal(self, journal: GroupJournal) -> None:
        """Write each step to this journal, from now on, before its replies are sent."""
        with self._owning:
            journal.open(self.group)
            self._journal = journal

    def close_journal(self, *, keep: bool) -> None:
        """Stop writing the journal; ``keep`` leaves it to the next run, else it is removed."""
        owns = self._owning.acquire(timeout=STOP_S)  # the loop may be stuck
        if self._journal is not None:
            self._journal.close(keep=keep)
        if owns:
            self._owning.release()

    @property
    def is_kept(self) -> bool:
        """Whether a next run can go on with this group."""
        unloaded = self._ended and self._for_good
        return self._journal is not None and self._journal.is_usable and not unloaded

    def stop(self, *, for_good: bool = True) -> None:
        """End the loop; parked requests fail, agents end (``for_good``) or wait for the next run."""
        self._for_good = for_good
        self._inbox.put(None)
        self._thread.join(STOP_S)

    def request(self, request: Request, timeout_s: float) -> Reply:
        """The group's reply; parked requests wait for it.  Raises TimeoutError after ``timeout_s``."""
        answer: Future[Reply] = Future()
        with self._owning:
            if self._ended and not self._for_good:  # a group that is unloaded answers by itself
                raise TimeoutError("the coordinator has ended")
            self._clock.advance(self._waits_ms)
            self._run_job(partial(self._admit, request, answer))
            if self._due_ms < self._wakes_at_ms:
                self._wakes_at_ms = 0
                self._inbox.put(_do_nothing)  # wake the loop: something is due before the end of its wait
        try:
            return answer.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(f"no answer within {timeout_s:g} s") from None
        except CancelledError:
            raise TimeoutError("the coordinator has ended") from None

    def subscribe(self, address: str) -> EventQueue:
        """The queue of the events for the agent at this address; the first one has the topics."""
        address = address[: validation.MOST_NAME]
        with self._owning:  # no change of topics falls in between, and no join of this agent comes before
            events = self._streams.add(address)
            self._push_missed(address)
        return events

    def _push_missed(self, address: str) -> None:
        """Push the rebalance of a restarted coordinator to a new listener: its next heartbeat would be later."""
        phase = self.group.rebalance
        if phase is None or phase.reason.cause is not Cause.COORDINATOR_RESTARTED:
            return
        if next((name for name, info in self._infos.items() if info.address == address), "") not in self.group.joins:
            self._streams.rejoin(address, str(phase.reason), self.group.generation)

    def unsubscribe(self, events: EventQueue) -> None:
        """Forget a queue."""
        self._inbox.put(lambda: self._streams.remove(events))

    def topics_changed(self) -> None:
        """Topics or partition counts may have changed; a rebalance follows if they did."""
        self._inbox.put(self._on_topics_changed)

    def trigger(self, reason: str) -> None:
        """Ask for a rebalance (KIP-568)."""
        self._inbox.put(lambda: self._step(Trigger(requested(reason))))

    def record_loads(self, member_id: str, loads: Mapping[TopicPartition, Load]) -> bool:
        """Take a member's report of its loads; false without the load-balanced assignor, or for an unknown member."""
        with self._owning:
            if self.balancing is None or member_id not in self.group.members:
                return False
            self.balancing.on_load_report(groups.owned(self.group, member_id), loads)
            if delayed_rebalance.deadline(self.leading.leader_state) is None:
                self.balancing.check_imbalance(self.group, self._round, self._clock.advance(self._waits_ms))
            return True

    def is_driver(self, request: Request) -> bool:
        """Whether a request is of the driver's own member, which the network must not send."""
        if isinstance(request, LeaveGroup):
            return any(self._speaks_as_driver(leaving) for leaving in request.members)
        return self._speaks_as_driver(request)

    def _speaks_as_driver(self, speaker: object) -> bool:
        if getattr(speaker, "group_instance_id", None) == DRIVER:
            return True
        own = self._driver.member_id
        return bool(own) and getattr(speaker, "member_id", None) == own

    def members(self) -> dict[str, MemberInfo]:
        """The live members that are agents, by member id."""
        infos = dict(self._infos)
        return {name: infos[name] for name in list(self.group.members) if name in infos}

    @property
    def now_ms(self) -> int:
        """The group's own time, as of the last event."""
        return self._clock.now_ms

    def owners(self) -> Mapping[TopicPartition, str]:
        """The owner of each partition."""
        return groups.owners(self.group)

    def scheduled(self) -> tuple[frozenset[TopicPartition], int] | None:
        """The partitions that wait for a replacement, and the ms until they are assigned or delayed moves are made."""
        state = self.leading.leader_state
        due = delayed_rebalance.deadline(state)
        waits = due is not None and (state.failure is None or state.scheduled.due_ms is not None)
        return (state.scheduled.partitions, max(due - self._clock.now_ms, 0)) if waits and due is not None else None

    # --- with the lock ------------------------------------------------------------------------------------

    def _wait(self) -> bool:
        if self._ended:
            return False
        with self._owning:
            wait_ms = self._waits_ms = max(self._due_ms - self._clock.now_ms, 0)
            self._wakes_at_ms = self._clock.now_ms + wait_ms
        self._job = _do_nothing
        with contextlib.suppress(queue.Empty):
            self._job = self._inbox.get(timeout=wait_ms / 1000)
        return True

    def _work(self) -> None:
        with self._owning:
            self._clock.advance(self._waits_ms)
            if self._journal is not None:
                self._journal.alive()
            if self._job is None:
                self._end()
            else:
                self._run_job(self._job)

    def _fail(self, error: CohortError) -> None:
        self.failure = error

    def _run_job(self, job: Callable[[], None]) -> None:
        try:
            job()
            self._due_ms = self._next_ms()
            if self._due_ms <= self._clock.now_ms:  # also where requests never cease
                self._tick()
                self._due_ms = self._next_ms()
        except Exception:  # one request must not end the group
            log.exception("group %s: a request failed inside the coordinator", self.settings.group_id)

    def _next_ms(self) -> int:
        """When the loop has work without a request, by the group's clock; within a second at the latest."""
        due = self._clock.now_ms + 1000
        own = (self._round_due(), self.leading.deadline())
        for deadline in (groups.deadline(self.group), machine.deadline(self._driver), *own):
            if deadline is not None and deadline < due:
                due = deadline
        return due

    def _round_due(self) -> int | None:
        """When the leader needs another round; None during a rebalance, which includes what is due."""
        return self.leading.due() if self.group.state is groups.GroupState.STABLE else None

    def _tick(self) -> None:
        due = groups.deadline(self.group)
        if due is not None and due <= self._clock.now_ms:
            self._step(Tick())
        due = machine.deadline(self._driver)
        if due is not None and due <= self._clock.now_ms:
            self._step_driver(Tick())
        due = self._round_due()
        if due is not None and due <= self._clock.now_ms:
            self._step(Trigger(self.leading.reason(self._name)))
        self.leading.tick()

    def _admit(self, request: Request, answer: Future[Reply]) -> None:
        """Check a request and step the group with it; a member whose rejoin is refused is removed, so that no round waits for it."""
        try:
            request = self._door.admit(request, self.group, self._partition_counts, self._clock.now_ms)
        except validation.Refusal as refusal:
            self.counters[type(request).__name__, refusal.error.name] += 1
            answer.set_result(admission.refused(request, refusal))
            if isinstance(request, JoinGroup) and request.member_id:
                self._receive(validation.removal(request, refusal), Future())
            return
        self._receive(request, answer)

    def _receive(self, request: Request, answer: Future[Reply] | None) -> None:
        self._correlation += 1
        self._requests[self._correlation] = request, answer
        self._step(Received(self._correlation, request))

    def _step(self, event: Received | Tick | Trigger | Unload | Resume) -> None:
        former, decision = self.group, groups.decide(self.group, event, self._clock.now_ms)
        self.group = decision.group
        if self._journal is not None:
            self._journal.append(decision.records, self.group)
        self.history.add_step(former, self.group, decision.records, self._clock.now_ms)
        for action in decision.actions:
            try:
                self._carry_out(action)
            except Exception:  # one member's data must not cost the others their replies
                log.exception("group %s: %s was not carried out", self.settings.group_id, type(action).__name__)

    def _carry_out(self, action: Action) -> None:
        match action:
            case Answer(correlation, reply):
                self._answer(correlation, reply)
            case PushRejoin():
                self._push_rejoin(action)
            case Refused(request, error, member_id, partitions):
                self.counters[request, error.name] += partitions
                if not self._door.is_worth_a_line(action, self._clock.now_ms):
                    return
                lately = self.history.lately(member_id)
                log.info(
                    "group %s: refused %s of %s: %s%s",
                    self.settings.group_id,
                    request,
                    validation.log_text(member_id),
                    error.name,
                    f" (before that: {lately})" if lately else "",
                )
            case Rebalanced():
                self._rebalanced(action)
            case Removed(member_id, reason):
                log.info("group %s: member %s removed: %s", self.settings.group_id, self._name(member_id), reason)

    def _answer(self, correlation: int, reply: Reply) -> None:
        request, answer = self._requests.pop(correlation)
        if isinstance(request, JoinGroup) and isinstance(reply, JoinGroupReply) and reply.error == ErrorCode.NONE:
            self._store_info(request, reply.member_id)
        if answer is None:
            # Not from inside the step that produced it: the driver's next request starts a step of its own.
            self._inbox.put(lambda: self._step_driver(machine.Replied(reply, request)))
        else:
            answer.set_result(self.history.explain_refusal(request, reply))

    def _push_rejoin(self, push: PushRejoin) -> None:
        if push.member_id == self._driver.member_id:
            self._inbox.put(lambda: self._step_driver(machine.Pushed(push.reason, push.generation)))
        elif (info := self._infos.get(push.member_id)) is not None:
            self._streams.rejoin(info.address, push.reason, push.generation)

    def _step_driver(self, event: machine.MemberEvent) -> None:
        """Step the driver's own member and carry out its actions."""
        self._driver, actions = machine.step(self._driver, event, self._clock.now_ms)
        for action in actions:
            match action:
                case machine.Send(request):
                    self._receive(request, None)
                case machine.ComputeAssignment():
                    self._lead_round(action)
                case machine.Failed(error, message):
                    log.error("group %s: the driver's own member failed: %s %s", self.settings.group_id, error, message)
                case _:
                    pass  # it subscribes to nothing, so it never gets or loses partitions

    def _lead_round(self, request: machine.ComputeAssignment) -> None:
        """Start the computation of the assignment; ``_apply_assignments`` gets the result."""
        owned = {joined.member_id: groups.owned(self.group, joined.member_id) for joined in request.members}
        self.leading.lead_round(request, owned, lambda: self._round(request.protocol_name, request.members))

    def _round(self, name: str, members: Sequence[JoinedMember]) -> delayed_rebalance.Round:
        group, topics, racks = self.group, self._topics(), self.racks()
        owned = {joined.member_id: groups.owned(group, joined.member_id) for joined in members}
        balance = self.balancing.balance(self._clock.now_ms) if self.balancing and name == load_watch.NAME else None
        return delayed_rebalance.Round(
            name, members, topics, owned, group.previous_assignment, self._partitions, racks, balance, self.barred()
        )

    def _apply_assignments(self, assignments: leader.Assignments, generation: int, failure: str) -> None:
        if failure:
            self.history.assignor_failed(generation, f"{failure}; each member kept its partitions")
        delay = self.leading.leader_state.scheduled
        if delay.missing != self._awaited and delay.due_ms is not None:
            log.info(
                "group %s: %s departed: %d partitions are read directly until a replacement comes, for %d ms at most",
                *(self.settings.group_id, ", ".join(map(self._name, delay.missing))),
                len(delay.partitions),
                delay.due_ms - self._clock.now_ms,
            )
        self._awaited = delay.missing
        self._step_driver(machine.AssignmentComputed(assignments, generation))

    def _rebalanced(self, done: Rebalanced) -> None:
        self.rebalance_totals.add(done.reason, done.ended_ms - done.started_ms)
        revoking = {
            tp: name
            for name, assignment in self.group.assignments.items()
            for tp in groups.owned(self.group, name).keys() - self.group.embedded.assigned(assignment)
        }
        entry = self.history.rebalanced(done, revoking)
        self.partitions_moved += len(entry.moved)
        has_partitions = any(done.previous_assignment.values())
        level = logging.INFO if self.members() or has_partitions else logging.DEBUG  # its own join
        log.log(level, "group %s: %s", self.settings.group_id, summary.line(done, entry.routes, revoking, self._name))

    def _on_topics_changed(self) -> None:
        topics = dict(self._topics())
        if topics == self._partition_counts:
            return
        former, self._partition_counts = self._subscribed(), topics
        if former != self._subscribed():  # before the push to rejoin, so that every member joins once
            self._streams.push_topics()
        self._step(Trigger(Reason(Cause.TOPICS_CHANGED)))

    def _subscribed(self) -> tuple[str, ...]:
        return tuple(sorted(self._partition_counts))

    def _store_info(self, request: JoinGroup, member_id: str) -> None:
        if request.client_id == "driver":
            return
        live = self.group.members
        addresses = {info.address for name, info in self._infos.items() if name != member_id and name in live}
        info = self._door.describe_member(request, member_id, addresses)
        self._infos[member_id] = info
        self.history.name_member(member_id, info.executor_id, info.host)
        # Members that left since the last rebalance keep their names for the log line of the next one.
        group, waited_for = self.group, self.leading.leader_state.scheduled.missing
        for departed in set(self._infos) - {*group.members, *group.previous_assignment, *waited_for}:
            self._infos.pop(departed, None)

    def _name(self, member_id: str) -> str:
        info = self._infos.get(member_id)
        return f"{info.client_id} on {info.host}" if info else member_id

    def _end(self) -> None:
        if self._for_good:  # Kafka: onGroupUnloaded; a group that is taken over stays as it is
            self._step(Unload("its query has ended"))
        self._ended = True
        self.leading.close()
        self._streams.end("stop" if self._for_good else "restart")
        for _, answer in self._requests.values():
            if answer is not None:
                answer.cancel()


def _do_nothing() -> None:
    """The loop's job when only time has passed."""
