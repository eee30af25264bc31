"""A membership, its client and a group coordinator in memory: scripts say what happens, the log says what follows."""

from __future__ import annotations

import itertools

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka import membership_state as s
from sparkcohort.runtime.kafka.membership import deadline, is_void, new_membership, step
from sparkcohort.runtime.kafka.membership_state import Committed, Membership, MembershipConfig, MembershipState
from sparkcohort.runtime.kafka.run_epoch import CommitMetadata, decode, encode
from sparkcohort.runtime.protocol.partitions import TopicPartition

TURN_MS = 50
CONFIG = MembershipConfig("billing", "cohort-1", "subscribe:orders", silent_ms=10_000)


def parts(*names: str) -> frozenset[TopicPartition]:
    """``orders-0`` and so on."""
    return frozenset(TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])) for name in names)


def names(partitions: object) -> str:
    """As they are written in scripts."""
    return " ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(partitions))  # type: ignore[call-overload]


class MembershipWorld:
    """Carries actions out at once; ``away`` is a coordinator that does not answer, ``holding`` one that answers later."""

    def __init__(self, run_id: str = "ours", *, standalone: bool = False) -> None:
        """A driver that has just started, and joins unless it may commit ``standalone``; earlier runs have left nothing."""
        self.now_ms = 1_000_000
        self.membership = new_membership(CONFIG, run_id, self.now_ms)
        self.store: dict[TopicPartition, Committed] = {}
        self.topics: dict[str, int] = {}
        self.away = self.holding = False
        self.others = False  # somebody else is in the group
        self.deleted: frozenset[TopicPartition] = frozenset()
        self.held: list[s.MembershipAction] = []
        self.log: list[str] = []
        self._numbers = itertools.count(1)
        if not standalone:
            self.membership, _ = step(self.membership, s.Join(), self.now_ms)
        self._made = self.membership.client

    # --- what happens -----------------------------------------------------------------------------------

    def feed(self, event: s.MembershipEvent) -> None:
        """One event and all that follows from it."""
        before = self.membership
        self.membership, actions = step(before, event, self.now_ms)
        if self.membership.state is not before.state:
            failure = self.membership.failure
            self.log.append(f"  {before.state} -> {self.membership.state}" + (f": {failure}" if failure else ""))
        if self._made != self.membership.client:
            self._made = self.membership.client
            self.log.append(f"makes client {self._made}")
        for action in actions:
            if self.holding and isinstance(action, s.FetchOffsets | s.CommitOffsets):
                self.log.append(f"{self._words(action)}: not answered yet")
                self.held.append(action)
            else:
                self._carry_out(action)

    def after(self, ms: int) -> None:
        """Time passes, with a tick whenever one is due."""
        for _ in range(max(ms // TURN_MS, 1)):
            self.now_ms += TURN_MS
            due_ms = deadline(self.membership)
            if due_ms is not None and self.now_ms >= due_ms:
                self.feed(s.TimePassed())

    def set_topics(self, **counts: int) -> None:
        """The metadata change."""
        self.topics = counts
        there = {TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)}
        self.feed(s.TopicsChanged(tuple(sorted(counts)), frozenset(there)))

    def commit(self, offsets: dict[TopicPartition, int], *, reset: bool = False) -> None:
        """As ``GroupMembership.commit``."""
        text = self.membership.reservation.metadata()
        self.feed(s.CommitRequested(next(self._numbers), {tp: (at, text) for tp, at in offsets.items()}, reset, {}, {}))

    def reserve(self) -> None:
        """As ``GroupMembership.reserve``, from the beginning of each partition."""
        starts = dict.fromkeys(sorted(self.membership.partitions), 0)
        self.feed(s.ReserveRequested(next(self._numbers), starts, "", "", {}, {}))

    def fetch(self, partitions: frozenset[TopicPartition]) -> None:
        """As ``GroupMembership.committed``."""
        self.feed(s.FetchRequested(next(self._numbers), tuple(sorted(partitions))))

    def other_run(self, run: int) -> None:
        """Another driver commits its record beside each partition."""
        text = encode(CommitMetadata(run, run * 1000, f"run {run}"))
        for topic, count in self.topics.items():
            for number in range(count):
                known = self.store.get(TopicPartition(topic, number), Committed(0, ""))
                self.store[TopicPartition(topic, number)] = Committed(known.offset, text)

    def let_go(self) -> None:
        """The coordinator answers what it was asked."""
        self.holding, held = False, self.held
        self.held = []
        for action in held:
            self._carry_out(action)

    # --- what follows -----------------------------------------------------------------------------------

    def _carry_out(self, action: s.MembershipAction) -> None:
        if is_void(self.membership, action):
            self.log.append(f"{self._words(action)}: void")
            if isinstance(action, s.FetchOffsets | s.CommitOffsets):
                self.feed(s.CallFailed(action.call, f"the membership is {self.membership.state}"))
            return
        match action:
            case s.FetchOffsets() | s.CommitOffsets():
                words = self._words(action)
                result = self.call(action)
                self.log.append(f"{words}: {self._result(result)}")
                self.feed(result)
            case s.LookForForeignMembers(missing) if not missing:
                pass
            case _:
                self.log.append(self._words(action))

    def call(self, action: s.FetchOffsets | s.CommitOffsets) -> s.MembershipEvent:
        """What the coordinator answers."""
        if self.away:
            return s.CallFailed(action.call, "_TIMED_OUT: no answer", silent=True)
        if isinstance(action, s.FetchOffsets):
            return s.OffsetsFetched(
                action.call, {tp: self.store.get(tp, Committed(None, "")) for tp in action.partitions}
            )
        if self.others and self.membership.state is MembershipState.STANDALONE:
            return s.CallFailed(action.call, "UNKNOWN_MEMBER_ID")
        taken = [each for each in action.offsets if each.partition not in self.deleted]
        self.store |= {each.partition: Committed(each.offset, each.metadata, each.epoch) for each in taken}
        unknown = tuple(each.partition for each in action.offsets if each.partition in self.deleted)
        return s.CommitAnswered(action.call, {each.partition: each.offset for each in taken}, unknown)

    def _result(self, result: s.MembershipEvent) -> str:
        match result:
            case s.CallFailed(_, error):
                return error
            case s.OffsetsFetched(_, offsets) if offsets:
                runs = sorted({decode(known.metadata).run for known in offsets.values()} - {0})
                at = " ".join(f"{names([tp])}@{c.offset}" for tp, c in sorted(offsets.items()) if c.offset is not None)
                return f"{at or 'nothing'}{f', run {runs[-1]}' if runs else ''}"
            case s.CommitAnswered(_, _, unknown) if unknown:
                return f"UNKNOWN_TOPIC_OR_PARTITION: {names(unknown)}"
        return "done"

    def _words(self, action: s.MembershipAction) -> str:
        match action:
            case s.Subscribe(client, topics):
                return f"client {client} subscribes to {' '.join(topics) or 'nothing'}"
            case s.FetchOffsets(call) if call == self.membership.reading:
                return "reads the commit metadata"
            case s.FetchOffsets(_, partitions):
                return f"fetches offsets of {names(partitions)}"
            case s.CommitOffsets(_, offsets):
                run = decode(offsets[0].metadata).run
                at = " ".join(f"{names([each.partition])}@{each.offset}" for each in offsets)
                return f"commits {at}" + (f" as run {run}" if run else "")
            case s.LookForForeignMembers(missing):
                return f"looks who holds {names(missing)}"
            case s.DoubtMetadata():
                return "has the metadata read anew"
            case s.ClientReplaced(silent_ms):
                return f"replaces a client that was silent for {silent_ms} ms"
            case s.Warn(text):
                return f"warns: {text}"
            case s.MembershipAnswer(request, _, _, CohortError() as error):
                return f"  request {request} fails: {error.error or error}"
            case s.MembershipAnswer(request, result, ""):
                return f"  request {request} is done: {_shown(result)}"
            case s.MembershipAnswer(request, _, reason):
                return f"  request {request} is to be made again: {reason}"


def _shown(result: object) -> str:
    if isinstance(result, dict):
        offsets = {tp: at.offset if isinstance(at, Committed) else at for tp, at in sorted(result.items())}
        return " ".join(f"{names([tp])}@{at}" for tp, at in offsets.items()) or "nothing"
    own = getattr(result, "own", None)
    return f"run {own.run}, generations up to {own.generation}" if own else str(result)


def joined(partitions: int = 2) -> MembershipWorld:
    """A member of the group that has reserved run 1."""
    world = MembershipWorld()
    world.set_topics(orders=partitions)
    world.after(2 * TURN_MS)
    world.feed(s.AssignmentReceived(world.membership.partitions))
    world.after(2 * TURN_MS)
    world.reserve()
    assert world.membership.state is MembershipState.MEMBER
    world.log.clear()
    return world


def in_state(membership: Membership) -> str:
    """State, client, assignment and run, in one line."""
    own = membership.reservation.own
    assigned = "unassigned" if membership.assigned is None else f"assigned {names(membership.assigned) or 'nothing'}"
    return f"{membership.state}, client {membership.client}, {assigned}, {f'run {own.run}' if own else 'no run yet'}"


DENIED = CohortError("no permission on group billing", "GROUP_AUTHORIZATION_FAILED")
REFUSED = CohortError("authentication failed", "SASL_AUTHENTICATION_FAILED")
