"""What must hold: after every step, over restarts, and when the faults have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.leader import delayed_rebalance
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.group_laws import LawBroken, check_step
from tests.kit.group_records import replay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.simulator.process import Process
    from tests.simulator.world import World


class Laws:
    """Remembers what the laws are about; a check looks at what a step has changed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._generation = -1
        self._committed: dict[TopicPartition, int] = {}
        self._since: dict[TopicPartition, int] = {}  # under which assignment generation it was last committed
        self._floor: dict[TopicPartition, int] = {}  # committed when its owner got it

    # --- after a step -------------------------------------------------------------------------------

    def group_stepped(self, before: g.Group, event: p.Event, decision: g.Decision) -> None:
        """The coordinator has made a step."""
        check_step(before, event, decision)
        self.kept(decision.records, event)
        after = decision.group
        if after.owned is not before.owned:
            for process in self._world.processes:
                self.agrees(process)

    def kept(self, records: Iterable[r.GroupRecord], event: p.Event | None = None) -> None:
        """Records were written to the journal."""
        for record in records:
            if isinstance(record, r.GenerationStarted | r.Emptied):
                self._begun(record.generation)
            elif isinstance(record, r.OffsetsCommitted):
                request = event.request if isinstance(event, p.Received) else None
                self._committed_as(record, request if isinstance(request, p.OffsetCommit) else None)
            elif isinstance(record, r.PartitionsAssigned):
                for _, partitions in record.assigned:
                    self._floor |= {tp: self._committed.get(tp, 0) for tp, _ in partitions}

    def _begun(self, generation: int) -> None:
        if generation <= self._generation:
            raise LawBroken("I4", f"generation {generation} follows {self._generation}")
        self._generation = generation

    def _committed_as(self, record: r.OffsetsCommitted, request: p.OffsetCommit | None) -> None:
        stated = {(o.topic, o.partition): o.assignment_generation for o in request.offsets} if request else {}
        for tp, position in record.positions:
            if not position.member_id:  # of no member, which an empty group takes: an operator's reset
                self._committed[tp] = position.offset
                continue
            who = (position.member_id,)
            since = stated.get(tp, self._since.get(tp, -1))
            if since < self._since.get(tp, -1):
                raise LawBroken(
                    "I5", f"{tp.topic}-{tp.partition}: committed as of {since} after {self._since[tp]}", who
                )
            self._since[tp] = since
            if position.offset > self._world.log_end(tp):
                raise LawBroken("I6", f"{tp.topic}-{tp.partition}: {position.offset} is beyond the log", who)
            if position.offset < self._floor.get(tp, 0):
                raise LawBroken("I6", f"{tp.topic}-{tp.partition}: {position.offset} is before its owner's start", who)
            self._committed[tp] = position.offset

    def member_stepped(self, process: Process, before: ms.Member) -> None:
        """A member has made a step."""
        after = process.member
        if after.owned is not before.owned:
            self.agrees(process)
        if after.generation not in {before.generation, p.NO_GENERATION}:
            if after.generation < process.highest_generation:
                raise LawBroken("I4", f"{process.name} goes back to generation {after.generation}", (after.member_id,))
            process.highest_generation = after.generation

    def agrees(self, process: Process) -> None:
        """I1, I10: what a member believes to own is its own in the group's eyes, since the same generation."""
        member, group = process.member, self._world.coordinator.group
        who = member.member_id
        if not process.up or not member.owned or who not in group.members:
            return
        owned = group.owned.get(who, {})
        for tp, since in member.owned.items():
            if owned.get(tp) == since:
                continue
            other = next((x for x, theirs in group.owned.items() if tp in theirs and x != who), "")
            has = f"{other} has it" if other else f"it has it since {owned[tp]}" if tp in owned else "nobody has it"
            what = f"{who} owns {tp.topic}-{tp.partition} since {since}, and in the group's eyes {has}"
            raise LawBroken("I1" if other else "I10", what, (who, other) if other else (who,))

    def resumed(self, before: g.Group) -> None:
        """A new coordinator run has replayed the journal, and has not gone on yet."""
        after = self._world.coordinator.group
        committed = {tp: position.offset for tp, position in after.committed.items()}
        if committed != self._committed:
            lost = sorted(tp for tp in self._committed if committed.get(tp) != self._committed[tp])
            raise LawBroken("I6", f"commits lost with the coordinator: {lost}")
        if after != before:
            raise LawBroken("replay", "the journal's group is not the one that went down")

    # --- when faults have ended -----------------------------------------------------------------------

    def settled(self) -> str:
        """Why the group is not settled; empty if it is."""
        world, group = self._world, self._world.coordinator.group
        running = [x for x in world.processes if x.up]
        if not running:
            return "" if group.state is g.GroupState.EMPTY else f"the group is {group.state} without anybody"
        if group.state is not g.GroupState.STABLE or group.unsynced:
            return f"the group is {group.state}, {len(group.unsynced)} have not synced"
        for process in running:
            if process.member.state is not ms.MemberState.STABLE:
                return f"{process.name} is {process.member.state}"
        if group.members.keys() != {x.member.member_id for x in running}:
            return f"members {sorted(group.members)}, running {sorted(x.member.member_id for x in running)}"
        if any(delayed_rebalance.deadline(x.leader_state) is not None for x in running):
            return "the driver waits for somebody to come, or for its next round"
        return f"{world.schedule.busy} messages are under way" if world.schedule.busy else ""

    def check_settled(self) -> None:
        """I2, I3, I11, and that members and group agree about every partition, both ways."""
        world, group = self._world, self._world.coordinator.group
        running = [x for x in world.processes if x.up]
        for process in running:
            member = process.member
            if member.generation != group.generation:
                what = f"{process.name} is at generation {member.generation}, the group at {group.generation}"
                raise LawBroken("I3", what, (member.member_id,))
            if dict(member.owned) != dict(g.owned(group, member.member_id)):
                raise LawBroken("I10", f"{process.name} and the group differ in what it owns", (member.member_id,))
        wanted = {topic for process in running for topic in process.member.config.topics}
        every = {TopicPartition(t, n) for t, count in world.topics.items() if t in wanted for n in range(count)}
        if (owned := set(g.owners(group))) != every:
            raise LawBroken("I2", f"without owner: {sorted(every - owned)}; owned in vain: {sorted(owned - every)}")
        if group.protocol_name == "cooperative-sticky":
            _check_balance({x.member.member_id: (x.member.config.topics, len(x.member.owned)) for x in running})

    def holdings(self) -> dict[Process, frozenset[TopicPartition]]:
        """What every process holds."""
        return {x: frozenset(x.member.owned) for x in self._world.processes if x.up}

    def check_moves(self, before: Mapping[Process, frozenset[TopicPartition]]) -> None:
        """I11: those who were there and still are have lost no more than balance needs; for equal subscribers."""
        world, after = self._world, self.holdings()
        subscribers = [x for x in after if x.member.config.topics]
        if len({x.member.config.topics for x in subscribers}) != 1:
            return
        if world.coordinator.group.protocol_name != "cooperative-sticky":
            return
        moved = sum(len(before[x] - after[x]) for x in subscribers if x in before)
        loads = [len(before.get(x, ())) for x in subscribers]
        least = fewest_moves(loads, sum(len(after[x]) for x in subscribers))
        if moved > least:
            raise LawBroken("I11", f"{moved} partitions moved where {least} would do: {loads} before")

    def late(self) -> list[TopicPartition]:
        """Owned partitions that are not committed to the end of their log."""
        world = self._world
        owned = sorted(g.owners(world.coordinator.group))
        return [tp for tp in owned if self._committed.get(tp, 0) != world.log_end(tp)]

    def check_delivered(self) -> None:
        """I12: every waiting record is delivered, and committed."""
        if late := self.late():
            raise LawBroken("I12", f"not read to the end: {late}")

    def check_replay(self) -> None:
        """The journal makes the group."""
        coordinator = self._world.coordinator
        if replay(coordinator.first, coordinator.journal) != coordinator.group:
            raise LawBroken("replay", "the journal makes another group")


def _check_balance(loads: Mapping[str, tuple[tuple[str, ...], int]]) -> None:
    """I11: among equal subscribers, nobody has two more than another."""
    by_topics: dict[tuple[str, ...], list[int]] = {}
    for topics, load in loads.values():
        by_topics.setdefault(tuple(sorted(topics)), []).append(load)
    for topics, equal in by_topics.items():
        if max(equal) - min(equal) > 1:
            raise LawBroken("I11", f"subscribers of {', '.join(topics)} have {sorted(equal)}", tuple(loads))


def refusals(reply: p.Reply) -> int:
    """How many partitions of a commit were refused."""
    if not isinstance(reply, p.OffsetCommitReply):
        return 0
    return sum(error is not ErrorCode.NONE for _tp, error in reply.partitions)


def fewest_moves(before: list[int], partitions: int) -> int:
    """How many partitions of members that stay must move to balance these equal subscribers, ``before`` all of them.

    >>> fewest_moves([3, 3, 0], 6), fewest_moves([2, 2], 6), fewest_moves([5, 1], 6)
    (2, 0, 2)
    """
    fewest, one_more = divmod(partitions, len(before))
    richest = sorted(before, reverse=True)
    return sum(max(load - fewest - (place < one_more), 0) for place, load in enumerate(richest))
