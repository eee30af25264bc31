"""A member's process: the production state machine, and around it what the agent's shell does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sparkcohort.runtime.group import member_machine as m
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.group.member_state import timeout_ms
from sparkcohort.runtime.leader import assignment, delayed_rebalance
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.group_world import REBALANCE_MS

if TYPE_CHECKING:
    from tests.simulator.world import World

FETCH_RETRY_MS = 500
_ENDED = frozenset({ms.MemberState.LEFT, ms.MemberState.FAILED})


class Process:
    """Runs one member; ``local`` is the driver, which lives with the coordinator and needs no network."""

    def __init__(self, world: World, name: str, config: ms.MemberConfig, *, local: bool = False) -> None:
        self.world, self.name, self.local = world, name, local
        self.member = ms.Member(config)
        self.up, self.frozen = True, False
        self.positions: dict[TopicPartition, int] = {}
        self.last_commit: p.OffsetCommit | None = None
        self.highest_generation = -1
        self.leader_state = delayed_rebalance.LeaderState()
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._calls: dict[int, p.Request] = {}
        self._fetching: dict[TopicPartition, int] = {}  # the call whose reply tells the place in it
        self._wake_ms: int | None = None

    @property
    def running(self) -> bool:
        """Whether it does anything."""
        return self.up and not self.frozen

    # --- what reaches it ----------------------------------------------------------------------------

    def reach(self, what: Callable[..., None], *args: Any) -> None:
        """Something reaches the process; a frozen one finds it when it thaws."""
        if self.frozen:
            self._held.append((what, args))
        elif self.up:
            what(*args)

    def replied(self, call: int, reply: p.Reply) -> None:
        """The first reply of a call counts; later ones are nobody's."""
        request = self._calls.pop(call, None)
        if request is None:
            return
        if isinstance(reply, p.OffsetFetchReply):
            self._positioned(call, reply)
        else:
            self.step(ms.Replied(reply, request))

    def unreachable(self, call: int) -> None:
        """A call has failed, or taken too long."""
        request = self._calls.pop(call, None)
        if isinstance(request, p.OffsetFetch):
            self.world.schedule.after(FETCH_RETRY_MS, self.reach, self._fetch, request.partitions)
        elif request is not None:
            self.step(ms.Unreachable(type(request).__name__))

    def pushed(self, generation: int, reason: str) -> None:
        """The coordinator says: rejoin."""
        self.step(ms.Pushed(reason, generation))

    def step(self, event: ms.MemberEvent) -> None:
        """Step the member and do what it wants."""
        if not self.up:
            return
        before = self.member
        self.member, actions = m.step(before, event, self.world.now_ms)
        self.world.member_stepped(self, before, event)
        for action in actions:
            self._do(action)
        if self.member.state in _ENDED:
            self.end()
        else:
            self._arm()

    # --- what it does -------------------------------------------------------------------------------

    def _do(self, action: ms.MemberAction) -> None:
        match action:
            case ms.Send(request):
                self.send(request)
            case ms.ComputeAssignment():
                self._lead(action)
            case ms.Assigned(added):
                self._fetch(tuple(added))
            case ms.Revoke(partitions):
                self.commit(partitions)
                self._give_up(partitions)
                self.world.schedule.after(self.world.takes_ms(600), self.reach, self.step, ms.RevocationDone())
            case ms.PartitionsLost(partitions):
                self._give_up(partitions)

    def send(self, request: p.Request) -> None:
        """Call the coordinator."""
        world = self.world
        world.calls += 1
        call = world.calls
        self._calls[call] = request
        if not self.local:
            world.schedule.later(timeout_ms(self.member.config, request), self.reach, self.unreachable, call)
        world.network.request(self, call, request, world.coordinator.receive)

    def _lead(self, asked: ms.ComputeAssignment) -> None:
        """As ``shell.coordinator.leadership`` does; an assignor that fails does so at once, or when its time is over."""
        world, group, now_ms = self.world, self.world.coordinator.group, self.world.coordinator.now_ms
        wait_ms = 0
        if world.assignor_fails:
            world.count("assignor failures")
            self.leader_state, assignments = (
                delayed_rebalance.record_failure(self.leader_state, now_ms),
                assignment.keep_owned(asked.members, group.owned),
            )
            wait_ms = world.random.choice((0, REBALANCE_MS * 4 // 5))
        else:
            this = delayed_rebalance.Round(
                asked.protocol_name, asked.members, world.topics, group.owned, group.previous_assignment
            )
            assignments, self.leader_state = delayed_rebalance.lead(self.leader_state, this, now_ms, world.max_delay_ms)
        world.schedule.after(wait_ms, self.reach, self.step, ms.AssignmentComputed(assignments, asked.generation))

    def _fetch(self, partitions: tuple[TopicPartition, ...]) -> None:
        mine = self.member.owned.keys() - self.member.revoking - self.positions.keys()
        wanted = tuple(tp for tp in partitions if tp in mine)
        if wanted:
            self._fetching |= dict.fromkeys(wanted, self.world.calls + 1)
            self.send(p.OffsetFetch(wanted))

    def _positioned(self, call: int, reply: p.OffsetFetchReply) -> None:
        if reply.error is not ErrorCode.NONE:
            return
        for tp, offset in reply.offsets:
            if self._fetching.get(tp) == call:  # not one of an ownership that has ended since
                self.positions[tp] = max(offset, 0)

    def _give_up(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self.positions.pop(tp, None)
            self._fetching.pop(tp, None)

    def commit(self, partitions: Any, *, lie: int | None = None) -> None:
        """Commit how far it has read; ``lie`` is an assignment generation to state, whatever is true."""
        read = {tp: self.positions[tp] for tp in sorted(partitions) if tp in self.positions}
        request = ms.commit(self.member, read)
        if lie is not None:
            offsets = tuple(
                p.CommittedPosition(tp.topic, tp.partition, self.world.log_end(tp), lie) for tp in sorted(partitions)
            )
            member = self.member
            request = p.OffsetCommit(member.member_id, member.config.group_instance_id, member.generation, offsets)
        elif request is not None:
            self.last_commit = request
        if request is not None and request.offsets:
            self.send(request)

    def read_on(self, at_most: int) -> None:
        """Read some more of every partition that it knows its place in."""
        for tp, position in self.positions.items():
            self.positions[tp] = min(position + at_most, self.world.log_end(tp))

    # --- its life -----------------------------------------------------------------------------------

    def _arm(self) -> None:
        due_ms = m.deadline(self.member)
        if due_ms is not None and (self._wake_ms is None or due_ms < self._wake_ms):
            self._wake_ms = max(due_ms, self.world.now_ms)
            self.world.schedule.later(self._wake_ms - self.world.now_ms, self._wake, self._wake_ms)

    def _wake(self, at_ms: int) -> None:
        if self._wake_ms != at_ms:
            return
        self._wake_ms = None
        if not self.running:
            return
        due_ms = m.deadline(self.member)
        if due_ms is not None and due_ms <= at_ms:
            self.step(p.Tick())
        else:
            self._arm()

    def thaw(self) -> None:
        """Go on, with all that has come meanwhile."""
        self.frozen = False
        held, self._held = self._held, []
        for what, args in held:
            self.reach(what, *args)
        if self.up:
            self._arm()

    def end(self) -> None:
        """The process is gone."""
        self.up = self.frozen = False
        self._held.clear()
        self._calls.clear()
