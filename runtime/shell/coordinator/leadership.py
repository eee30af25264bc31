"""The driver's own member, the first in its group and so its leader, and the rounds that it leads.

It lives in the coordinator's loop and talks to the group without a network.  All methods need the coordinator's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from sparkcohort.assignors import Assignor, Racks
from sparkcohort.runtime import group as groups
from sparkcohort.runtime.group import member_machine as machine
from sparkcohort.runtime.group import member_state
from sparkcohort.runtime.leader import delayed_rebalance, imbalance
from sparkcohort.runtime.leader.assignment import Barred, Owned
from sparkcohort.runtime.protocol.messages import Assignments, JoinedMember, Reply, Request, Tick
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import Reason
from sparkcohort.runtime.shell.coordinator.assignor_runner import AssignorRunner
from sparkcohort.runtime.shell.coordinator.group_loop import GroupLoop
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings

log = logging.getLogger("sparkcohort.coordinator")

DRIVER = "driver"
"""The instance id of the driver's own member; a takeover of it would end the group, so no request may state it."""

Topics: TypeAlias = Callable[[], Mapping[str, int]]


class Leadership:
    """The leader of one group.

    ``topics`` returns topics with partition counts; ``partitions`` are those to read, if not all; ``racks`` returns where
    replicas are, ``barred`` what members can't fetch.  ``group`` returns the group, ``send`` sends it a request, ``name`` makes
    a member id readable, ``on_failure`` takes a generation and the failure of its assignor.
    """

    def __init__(
        self,
        settings: GroupSettings,
        loop: GroupLoop,
        topics: Topics,
        partitions: Mapping[str, Sequence[int]],
        racks: Callable[[], Racks],
        assignors: Mapping[str, Assignor],
        *,
        group: Callable[[], groups.Group],
        send: Callable[[Request], None],
        name: Callable[[str], str],
        on_failure: Callable[[int, str], None],
    ) -> None:
        self.racks = racks
        self.barred: Callable[[], Barred] = dict
        weighs = imbalance.NAME in settings.assignors
        self.balancing = imbalance.LoadWatch(*settings.load_balance) if weighs else None
        self.runner = AssignorRunner(
            settings.group_id,
            assignors,
            settings.rebalance_timeout_ms,
            settings.scheduled_rebalance_max_delay_ms,
            self.balancing,
            now=lambda: loop.now_ms,
            post=loop.post,
            done=self._apply_assignments,
        )
        self._group_id = settings.group_id
        self._loop = loop
        self._topics, self._partitions = topics, partitions
        self._group, self._send, self._name, self._on_failure = group, send, name, on_failure
        self._member = member_state.Member(_member_config(settings))
        self._awaited: tuple[str, ...] = ()  # departed members that were logged

    def start(self) -> None:
        """Join the group."""
        self._step(member_state.Start())

    def on_reply(self, reply: Reply, request: Request) -> None:
        """The group has answered; not from inside the step that did: the next request starts a step of its own."""
        self._loop.post(lambda: self._step(member_state.Replied(reply, request)))

    def on_push(self, member_id: str, reason: str, generation: int) -> bool:
        """Whether a push to rejoin is for the driver's own member, which then rejoins."""
        if member_id != self._member.member_id:
            return False
        self._loop.post(lambda: self._step(member_state.Pushed(reason, generation)))
        return True

    def due(self) -> int | None:
        """When ``tick`` has something to do."""
        times = (machine.deadline(self._member), self._round_due(), self.runner.deadline())
        return min((due_ms for due_ms in times if due_ms is not None), default=None)

    def tick(self) -> Reason | None:
        """Do what is due; the reason of a rebalance if one is."""
        own = machine.deadline(self._member)
        if own is not None and own <= self._loop.now_ms:
            self._step(Tick())
        due = self._round_due()
        self.runner.tick()
        return self.runner.reason(self._name) if due is not None and due <= self._loop.now_ms else None

    def check_imbalance(self) -> None:
        """Look whether a round would relieve an imbalance of load, unless one is due for another reason."""
        if self.balancing is not None and delayed_rebalance.deadline(self.runner.leader_state) is None:
            self.balancing.check_imbalance(self._group(), self._round, self._loop.advance())

    def scheduled(self) -> tuple[frozenset[TopicPartition], int] | None:
        """The partitions that wait for a replacement, and the ms until they are assigned or delayed moves are made."""
        state = self.runner.leader_state
        due = delayed_rebalance.deadline(state)
        if due is None or (state.failure is not None and state.scheduled.due_ms is None):
            return None
        return state.scheduled.partitions, max(due - self._loop.now_ms, 0)

    def _round_due(self) -> int | None:
        """When another round is needed; None during a rebalance, which includes what is due."""
        return self.runner.due() if self._group().state is groups.GroupState.STABLE else None

    def _step(self, event: member_state.MemberEvent) -> None:
        self._member, actions = machine.step(self._member, event, self._loop.now_ms)
        for action in actions:
            match action:
                case member_state.Send(request):
                    self._send(request)
                case member_state.ComputeAssignment(name, members):
                    self.runner.lead_round(action, self._owned(members), partial(self._round, name, members))
                case member_state.Failed(error, message):
                    log.error("group %s: the driver's own member failed: %s %s", self._group_id, error, message)
                case _:
                    pass  # it subscribes to nothing, so it never gets or loses partitions

    def _round(self, name: str, members: Sequence[JoinedMember]) -> delayed_rebalance.Round:
        topics, owned, previous = self._topics(), self._owned(members), self._group().previous_assignment
        balance = self.balancing.balance(self._loop.now_ms) if self.balancing and name == imbalance.NAME else None
        return delayed_rebalance.Round(
            name, members, topics, owned, previous, self._partitions, self.racks(), balance, self.barred()
        )

    def _owned(self, members: Sequence[JoinedMember]) -> Owned:
        return {joined.member_id: groups.owned(self._group(), joined.member_id) for joined in members}

    def _apply_assignments(self, assignments: Assignments, generation: int, failure: str) -> None:
        if failure:
            self._on_failure(generation, f"{failure}; each member kept its partitions")
        delay = self.runner.leader_state.scheduled
        if delay.missing != self._awaited and delay.due_ms is not None:
            log.info(
                "group %s: %s departed: %d partitions are read directly until a replacement comes, for %d ms at most",
                *(self._group_id, ", ".join(map(self._name, delay.missing))),
                len(delay.partitions),
                delay.due_ms - self._loop.now_ms,
            )
        self._awaited = delay.missing
        self._step(member_state.AssignmentComputed(assignments, generation))


def _member_config(settings: GroupSettings) -> member_state.MemberConfig:
    return member_state.MemberConfig(
        client_id=DRIVER,
        client_host=DRIVER,
        group_instance_id=DRIVER,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        rebalance_timeout_ms=settings.rebalance_timeout_ms,
        topics=(),
        assignors=settings.assignors,
    )
