"""One run from its seed to its end, and many of them."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field

from sparkcohort.runtime.group import timeline
from tests.kit.group_laws import LawBroken
from tests.kit.group_world import SESSION_MS
from tests.simulator.breaks import BREAKS
from tests.simulator.faults import Faults
from tests.simulator.world import World

CHUNK = 100
LAST_EVENTS = 40
MOST_STORIES = 4
CLEAN_CHANGES = 0.4  # how many runs see a member come or go, or partitions be added, once all faults have ended
DELIVERY_MS = 500
DELIVERY_ROUNDS = 12


@dataclass(frozen=True)
class Broken:
    """A seed that breaks a law: which, how, and the report for whoever looks into it."""

    seed: int
    law: str
    what: str
    report: str


@dataclass
class Tally:
    """What many runs came to."""

    seeds: int = 0
    events: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the tally of other seeds."""
        self.seeds += other.seeds
        self.events += other.events
        self.counts += other.counts
        self.broken += other.broken


def play(faults: Faults, events: int) -> None:
    """Let faults and work happen until so many events, then end them; raises LawBroken."""
    world = faults.world
    while world.events < events:
        world.schedule.step()
    faults.end()
    _settle(world)
    if world.random.random() < CLEAN_CHANGES:
        _change(faults)
    _deliver(world)
    world.laws.check_replay()


def _settle(world: World) -> None:
    """I12: two sessions after the last fault, or the last message that was under way then, the group is settled.

    A grace period for departed members comes on top, and the time until an assignor that failed is asked again.
    """
    schedule, laws = world.schedule, world.laws
    deadline_ms = max(world.now_ms, world.network.latest_ms) + 2 * SESSION_MS + world.max_delay_ms
    failures = [x.leader_state.failure for x in world.processes if x.up and x.leader_state.failure is not None]
    deadline_ms += max((failure.due_ms - world.coordinator.now_ms for failure in failures), default=0)
    while schedule.busy or laws.settled():
        next_ms = schedule.next_ms()
        if next_ms is None or next_ms > deadline_ms:
            raise LawBroken("I12", f"not settled within two sessions: {laws.settled()}")
        schedule.step()
    laws.check_settled()


def _change(faults: Faults) -> None:
    """I11: one thing changes in a settled group, and no more moves than has to."""
    world = faults.world
    before = world.laws.holdings()
    world.network.latest_ms = world.now_ms
    faults.change()
    _settle(world)
    world.laws.check_moves(before)
    world.count("clean changes")


def _deliver(world: World) -> None:
    """Everybody reads to the end of all it owns, and commits."""
    world.end_logs()
    for _ in range(DELIVERY_ROUNDS):
        for process in list(world.processes):
            process.read_on(world.now_ms)
            process.commit(process.member.owned)
        world.schedule.run_to(world.now_ms + DELIVERY_MS)
        if not world.laws.late():
            break
    world.laws.check_settled()
    world.laws.check_delivered()


def run(seed: int, events: int) -> tuple[World, Broken | None]:
    """One seed: its world at the end, and the law that it broke if it did."""
    faults = Faults(seed)
    world = faults.world
    try:
        play(faults, events)
    except LawBroken as broken:
        return world, _report(world, seed, broken)
    except Exception as error:  # noqa: BLE001  whatever the core raises is a finding, and the seed tells how
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_qualname}, line {where.tb_lineno}" if where else "?"
        return world, _report(world, seed, LawBroken("totality", f"{type(error).__name__}: {error} (in {place})"))
    return world, None


def _report(world: World, seed: int, broken: LawBroken) -> Broken:
    group = world.coordinator.group
    members = broken.members or tuple(group.members)[:MOST_STORIES]
    lines = [f"seed {seed} breaks {broken.law}: {broken.what}", "", "The last events:", *world.lines(LAST_EVENTS)]
    for member_id in members:
        told = [line for _, line in timeline.placed_lines(world.coordinator.journal, member_id)]
        lines += ["", f"The story of {member_id}:", *(f"  {line}" for line in told)]
    return Broken(seed, broken.law, broken.what, "\n".join(lines))


def many(first: int, seeds: int, events: int, broken: str | None = None) -> Tally:
    """Run a stretch of seeds in this process, with one thing broken if so asked."""
    tally = Tally()
    gc.disable()  # the core's values have no cycles; what has is small, and gone with each chunk
    with BREAKS[broken].applied() if broken else nullcontext():
        for seed in range(first, first + seeds):
            world, found = run(seed, events)
            tally.seeds += 1
            tally.events += world.events
            tally.counts += world.counts
            tally.counts["messages dropped"] += world.network.dropped
            tally.counts["messages duplicated"] += world.network.duplicated
            tally.counts["messages slowed"] += world.network.slowed
            if found:
                tally.broken.append(found)
    gc.enable()
    gc.collect()
    return tally


def tallies(first: int, seeds: int, events: int, jobs: int, broken: str | None = None) -> Iterator[Tally]:
    """The tallies of stretches of seeds, in order, from several processes."""
    stretches = [(at, min(CHUNK, first + seeds - at)) for at in range(first, first + seeds, CHUNK)]
    if jobs == 1:
        yield from (many(at, count, events, broken) for at, count in stretches)
        return
    with ProcessPoolExecutor(jobs) as pool:
        running = [pool.submit(many, at, count, events, broken) for at, count in stretches]
        try:
            for future in running:
                yield future.result()
        finally:
            for future in running:
                future.cancel()


def total(parts: Iterable[Tally]) -> Tally:
    """All of them together."""
    whole = Tally()
    for part in parts:
        whole.add(part)
    return whole
