"""The coordinator's process: the production group, its journal, and the ways in which it goes down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import journal
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.leader import delayed_rebalance
from sparkcohort.runtime.protocol import messages as p
from tests.kit.group_laws import LawBroken

if TYPE_CHECKING:
    from tests.simulator.process import Process
    from tests.simulator.world import World

GENERATIONS = 1_000  # reserved by each run
CLOCK_STEP_MS = 1_000  # by how much the shell's clock goes on over a freeze

# What a coordinator goes down on: the failure cases of Kafka's coordinator, by the record that a step writes.
CRASHES: dict[str, tuple[type, ...]] = {
    "before a join completes": (r.JoinParked, r.RebalanceStarted),
    "before the sync": (r.GenerationStarted, r.SyncParked),
    "when stable": (r.AssignmentStored, r.SessionRenewed),
    "with a commit staged": (r.OffsetsCommitted,),
}


class Coordinator:
    """Runs the group; ``run`` counts its processes."""

    def __init__(self, world: World, config: g.GroupConfig) -> None:
        self.world = world
        self.first = self.group = g.new_group(config)
        self.journal: list[r.GroupRecord] = []
        self.journal_bytes = bytearray(journal.group_frame(self.group))
        self.up, self.frozen, self.run = True, False, 1
        self.crash_on: str | None = None
        self._lag_ms = 0  # how far its clock is behind
        self._frozen_ms = 0
        self._correlation = 0
        self._asked: dict[int, tuple[Process, int]] = {}
        self._addresses: dict[str, Process] = {}
        self._held: list[tuple[Process, int, p.Request]] = []
        self._wake_ms: int | None = None

    def alive(self) -> bool:
        """Whether it does anything."""
        return self.up and not self.frozen

    @property
    def now_ms(self) -> int:
        """The time by its own clock."""
        return self.world.now_ms - self._lag_ms

    def receive(self, process: Process, call: int, request: p.Request) -> None:
        """A request arrives."""
        if self.frozen:
            self._held.append((process, call, request))
        elif not self.up:
            self.world.network.refuse(process, call)
        else:
            self._correlation += 1
            self._asked[self._correlation] = process, call
            self.step(p.Received(self._correlation, request))

    def step(self, event: p.Event) -> None:
        """Decide, keep the records, act; the laws are checked in between."""
        before = self.group
        decision = g.step(before, event, self.now_ms)
        if self.crash_on is not None and any(isinstance(x, CRASHES[self.crash_on]) for x in decision.records):
            self._crash_within(decision)
            return
        self.group = decision.group
        self.keep(decision.records)
        self.world.group_stepped(before, event, decision)
        for action in decision.actions:
            self._act(action)
        if len(self._asked) != len(self.group.joins) + len(self.group.syncs):
            raise LawBroken("answers", "a request is neither answered nor parked, or both")
        self._arm()

    def keep(self, records: tuple[r.GroupRecord, ...]) -> None:
        """Write records to the journal: as values, and as the driver writes them."""
        self.journal += records
        self.journal_bytes += journal.frame(records)

    def _act(self, action: p.Action) -> None:
        match action:
            case p.Answer(correlation, reply):
                if correlation not in self._asked:
                    raise LawBroken("answers", f"request {correlation} is answered twice")
                process, call = self._asked.pop(correlation)
                if isinstance(reply, p.JoinGroupReply) and reply.member_id:
                    self._addresses[reply.member_id] = process
                self.world.answered(process, reply)
                self.world.network.reply(process, call, reply)
            case p.PushRejoin(member_id, reason, generation) if member_id in self._addresses:
                self.world.network.push(self._addresses[member_id], generation, reason)

    # --- time ---------------------------------------------------------------------------------------

    def _round(self) -> delayed_rebalance.LeaderState | None:
        """What the driver remembers, when it wants another round of a stable group at some time."""
        driver = next((x for x in self.world.processes if x.local), None)
        waits = driver is not None and self.group.state is g.GroupState.STABLE
        return (
            driver.leader_state
            if driver is not None and waits and delayed_rebalance.deadline(driver.leader_state) is not None
            else None
        )

    def _arm(self) -> None:
        memory = self._round()
        deadlines = (g.deadline(self.group), delayed_rebalance.deadline(memory) if memory else None)
        due_ms = min((at for at in deadlines if at is not None), default=None)
        if due_ms is None:
            return
        at_ms = max(due_ms + self._lag_ms, self.world.now_ms)
        if self._wake_ms is None or at_ms < self._wake_ms:
            self._wake_ms = at_ms
            self.world.schedule.later(at_ms - self.world.now_ms, self._wake, at_ms)

    def _wake(self, at_ms: int) -> None:
        if self._wake_ms != at_ms:
            return
        self._wake_ms = None
        if self.alive() and self._due(g.deadline(self.group)):
            self.step(p.Tick())
            if self.alive() and self._due(g.deadline(self.group)):
                raise LawBroken("timers", "a tick leaves something undone that is due")
        memory = self._round()
        if self.alive() and memory is not None and self._due(delayed_rebalance.deadline(memory)):
            self.step(p.Trigger(delayed_rebalance.reason(memory)))
        if self.alive():
            self._arm()

    def _due(self, at_ms: int | None) -> bool:
        return at_ms is not None and at_ms <= self.now_ms

    def freeze(self) -> None:
        """Stand still; time that passes is not the group's."""
        self.frozen, self._frozen_ms = True, self.world.now_ms

    def thaw(self) -> None:
        """Go on with all that has come meanwhile."""
        self.frozen = False
        self._lag_ms += max(self.world.now_ms - self._frozen_ms - CLOCK_STEP_MS, 0)
        held, self._held = self._held, []
        for process, call, request in held:
            self.receive(process, call, request)
        if self.up:
            self._wake_ms = None
            self._arm()

    # --- going down and coming back -------------------------------------------------------------------

    def _crash_within(self, decision: g.Decision) -> None:
        """Go down in the middle of a step: a part of its records is kept; actions come only after all of them."""
        assert self.crash_on is not None
        random = self.world.random
        kept = random.randint(0, len(decision.records))
        for record in decision.records[:kept]:
            self.group = record.apply(self.group)
        self.keep(decision.records[:kept])
        self.world.kept(decision.records[:kept])
        if kept == len(decision.records):
            for action in decision.actions[: random.randint(0, len(decision.actions))]:
                self._act(action)
        self.world.say(f"the coordinator goes down, {kept} of {len(decision.records)} records kept", self.crash_on)
        self.world.count(f"crash {self.crash_on}")
        self.crash()

    def crash(self) -> None:
        """Go down: whoever waits finds the connection broken."""
        self.up, self.frozen, self.crash_on = False, False, None
        asked, self._asked = self._asked, {}
        for process, call in [*asked.values(), *((process, call) for process, call, _ in self._held)]:
            self.world.network.refuse(process, call)
        self._held.clear()
        self.world.coordinator_down()

    def resume(self) -> None:
        """A new run: replay, then go on; an unloaded group begins anew but for what is committed."""
        self.run += 1
        self.up, self._wake_ms = True, None
        before = self.group
        self.group = journal.restore_group(bytes(self.journal_bytes))
        self.journal_bytes = bytearray(journal.group_frame(self.group))  # the new run's own
        self.world.resumed(before)
        planned_start = (self.run - 1) * GENERATIONS
        self.step(p.Resume(planned_start, f"run{self.run}"))
        self.world.say(f"the coordinator is back, run {self.run}", self.group.state)
