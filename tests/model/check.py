"""Every state that two members and three partitions can reach, through the production group and members.

What can happen in a state.  By itself: a request arrives, its answer is handled, work is finished, a member that has
something to learn sends a heartbeat.  As a fault, any number of times (or as asked for): a member leaves, its
process dies or has left and another takes its place; a session, the join phase or the time to sync ends;
a rebalance is asked for; what is sent is lost, late or doubled.  A commit of everything is tried in every state.

Two states are one when they differ in nothing that can ever matter, and are kept in one form (``names``):

* **Numbers have only an order.**  Generations, ids and attempts are compared and made one larger than all before, nothing
  else; each is replaced by its rank in its state.  (An older id sorts first; production has both orders.)
* **Time has no length.**  A deadline may end whenever it is set, which is more than can happen.
* **What is only told** is left out: words, the past, what was settled, commits; who is parked under which number.
* **A heartbeat is sent, heard and answered at once.**  What a delayed one would say of an id and a generation stays
  true, or its answer is void; one that is told nothing changes nothing.  A push says nothing that a heartbeat doesn't.
* **A process does at once what it has to do by itself** (handles an answer, plans, gives up, tries again), unless
  ``slow``: nobody sees whether it does so late, or what it sends then is on its way for long; so it leaves with nothing on
  its way.  An answer that it would ignore is none.
* **A process whom the group has removed** is one that begins anew (or has left): all that it asks is refused, which a commit
  of its shows, and nothing that it does reaches the group before its new join.

What is bounded is how much there is at once, not how often: two members, and ``strays``, requests whose sender doesn't
wait any more.  Only ``slow`` shows pushes.  Laws I1, I4 and I5 hold at every step, I2 and I3 where nothing can happen by
itself any more, and from every state where nobody is missed there is a way to such a one.
"""

from __future__ import annotations

import argparse
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec.structs import replace

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import member_machine as m
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.leader.assignment import plan, subscriptions
from sparkcohort.runtime.leader.delayed_rebalance import Round
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.group_laws import check_step
from tests.kit.group_world import member_config
from tests.model import names as n
from tests.model.process import (
    ARRIVING,
    ENDED,
    NOTHING,
    After,
    Kept,
    Part,
    World,
    decided,
    expired,
    forgotten,
    fresh,
    handled,
    losses,
    silent,
    tidy,
    walked,
)

TOPIC, NUMBERS = "t", (0, 1, 2)
PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in NUMBERS)
COMMITTING = 99
SIZE = 2


@dataclass
class Explorer:
    """Breadth first over all worlds within the bounds (see above); AssertionError where a law is broken."""

    strays: int = 0
    slow: bool = False  # a process takes its time: what it has to do locally, and pushes, come in any order
    parts: list[Part] = field(default_factory=list)
    seen: dict[World, int] = field(default_factory=dict)
    worlds: list[World] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    calm_edges: list[array[int]] = field(default_factory=list)
    steps: int = 0
    _places: dict[object, int] = field(default_factory=dict)
    _memo: dict[Any, Any] = field(default_factory=dict)
    _plans: dict[Any, p.Assignments] = field(default_factory=dict)

    # --- parts ----

    def part(self, number: int) -> Any:
        """The group, process or request of this number."""
        return self.parts[number].value

    def _named(self, part: Part, names: n.Names) -> int:
        how = names.of(part.seen)
        number = part.named.get(how)
        if number is None:
            value = walked(part.value, names)
            at = n.key(value)
            number = self._places.get(at)
            if number is None:
                number = self._places[at] = len(self.parts)
                self.parts.append(Part(value))
            part.named[how] = number
        return number

    def world(self, group: Part, processes: Iterable[Part], strays: Iterable[Part]) -> World:
        """The canonical world of these parts."""
        here = group.seen.ids
        processes = tuple([x if x.member_id in here or not x.member_id else self._forgotten(x) for x in processes])
        strays = tuple(strays)
        names = n.Names([x.seen for x in (group, *processes, *strays)])
        return World(
            self._named(group, names),
            tuple([self._named(x, names) for x in processes]),
            tuple(sorted([self._named(x, names) for x in strays])) if strays else (),
        )

    def _forgotten(self, part: Part) -> Part:
        """A process that the group has removed: whenever it hears of that, it begins anew, or has left for good."""
        kept: Kept = self._once(("forgotten", id(part)), lambda: Kept(part, forgotten(part.value)))
        return kept.part

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = make()
        return found

    def _of(self, world: World) -> tuple[Part, list[Part], list[Part]]:
        parts = self.parts
        return parts[world.group], [parts[x] for x in world.processes], [parts[x] for x in world.strays]

    # --- exploring ------

    def beginning(self, names: str = "ab") -> World:
        """An empty group, and these about to join."""
        group = Part(g.new_group(g.GroupConfig("billing", max_size=SIZE)))
        processes = []
        for name in names:
            member = ms.Member(member_config(name, (TOPIC,)))
            processes.append(Part(handled(n.Process(member), ms.Start())[0]))
        return self.world(group, processes, ())

    def explore(self, faults: int | None = None) -> None:
        """Visit all that can come of it, with so many faults at most."""
        self._see(self.beginning())
        at, layers = 0, 0
        while at < len(self.worlds):
            begun = at
            while at < len(self.worlds):  # what comes of it by itself
                self._calm(at, self.worlds[at])
                at += 1
            if layers == faults:
                return
            layers += 1
            for number in range(begun, at):
                self._wrong(self.worlds[number])

    def _see(self, world: World) -> int:
        number = self.seen.get(world)
        if number is None:
            number = self.seen[world] = len(self.worlds)
            self.worlds.append(world)
        return number

    def _calm(self, number: int, world: World) -> None:
        found = set(self.calm(world))
        after = array("I", [self._see(x) for x in found if self.bounded(x)])
        self.steps += len(after)
        self.calm_edges.append(after)
        self.check(number, world, quiet=not found)

    def _wrong(self, world: World) -> None:
        for other in (*self.heal(world), *self.fault(world)):
            self.steps += 1
            if self.bounded(other):
                self._see(other)

    def stuck(self) -> list[World]:
        """Worlds in which no process and no request is missed, and from which there is no way to a settled one."""
        before: list[list[int]] = [[] for _ in self.worlds]
        for number, after in enumerate(self.calm_edges):
            for other in after:
                before[other].append(number)
        good, front = set(self.settled), list(self.settled)
        while front:
            for number in before[front.pop()]:
                if number not in good:
                    good.add(number)
                    front.append(number)
        rest = [world for number, world in enumerate(self.worlds) if number not in good and not world.strays]
        return [world for world in rest if not self._missed(world)]

    def summary(self) -> str:
        """How much there is."""
        groups = len({world.group for world in self.worlds})
        return f"{len(self.worlds)} states of {groups} groups, {self.steps} steps, {len(self.settled)} of them settled"

    def bounded(self, world: World) -> bool:
        """Whether there is not more at once than allowed."""
        return len(world.strays) <= self.strays

    def _missed(self, world: World) -> bool:
        """Whether an id in the group belongs to no process."""
        group: g.Group = self.part(world.group)
        processes: list[n.Process] = [self.part(x) for x in world.processes]
        known = {x.member.member_id for x in processes if x.requests or x.member.state not in ENDED}
        known |= {getattr(reply, "member_id", "") for x in processes for reply in x.replies}
        waiting = {n.asked(x.member.outstanding) for x in processes}
        nobodys = [
            x
            for x, y in group.members.items()
            if x not in known and not (x in group.joins and ("join", y.client_id, y.attempt) in waiting)
        ]
        return bool(nobodys)

    # --- what can happen ------

    def calm(self, world: World) -> Iterator[World]:
        """Everything that happens by itself."""
        for place, number in enumerate(world.processes):
            who: n.Process = self.part(number)
            if who.requests:
                yield self.arrive(world, place)
            for at in () if who.requests else range(len(who.replies)):
                yield self.handle(world, place, ("reply", at))
            if who.pushes:
                yield self.handle(world, place, ("push",))
            if who.work:
                yield self.handle(world, place, ("work",))
            if not who.requests and who.member.heartbeat_due_ms is not None and (after := self.heartbeat(world, place)):
                yield after

    def heal(self, world: World) -> Iterator[World]:
        """What time and the network do: deadlines, and requests that come late or never."""
        group: g.Group = self.part(world.group)
        for place, stray in enumerate(world.strays):
            rest = world.strays[:place] + world.strays[place + 1 :]
            without = World(world.group, world.processes, rest)
            yield self.step(without, ("arrives", stray), partial(self._arrival, stray))
            yield self.world(*self._of(without))
        for member_id in group.sessions:
            yield self.tick(world, ("session", member_id), _over(member_id))
        if len(group.sessions) > 1:
            yield self.tick(world, ("sessions",), lambda x: expired(x, *x.sessions))
        if (phase := group.rebalance) is not None and group.state == "PreparingRebalance":
            yield self.tick(world, ("phase",), lambda x: replace(x, rebalance=replace(phase, deadline_ms=0)))
        if group.sync_deadline_ms is not None:
            yield self.tick(world, ("syncs",), lambda x: replace(x, sync_deadline_ms=0))

    def fault(self, world: World) -> Iterator[World]:
        """What else may go wrong, or be wanted."""
        if self.part(world.group).state in {"Stable", "CompletingRebalance"}:
            yield self.step(world, ("trigger",), lambda _group: n.TRIGGER)
        for place, number in enumerate(world.processes):
            who: n.Process = self.part(number)
            if who.member.state not in ENDED:
                yield self.handle(world, place, ("stop",))
                if who.requests and who.member.outstanding is not None:
                    yield self.unheard(world, place)
            yield from self.die(world, place)
            for at in () if who.requests else range(len(who.replies)):
                yield self.handle(world, place, ("reply twice", at))
            yield from self.lose(world, place)

    def die(self, world: World, place: int) -> Iterator[World]:
        """Another process takes its place; what it has sent is lost, or arrives in no time or another."""
        group, processes, strays = self._of(world)
        old: n.Process = processes[place].value
        client = old.member.config.client_id
        last = max((x for y in (group, *processes, *strays) for z, x in y.seen.attempts if z == client), default=0)
        processes[place] = self._once(("fresh", client, last), lambda: fresh(old.member.config, last))
        yield self.world(group, processes, strays)
        for request in old.requests:
            yield self.world(group, processes, [*strays, self._once(("stray", request), partial(Part, request))])

    def lose(self, world: World, place: int) -> Iterator[World]:
        """A request, its copy, an answer or a push goes astray; the process tries again."""
        group, processes, strays = self._of(world)
        number = world.processes[place]
        for after, astray in self._once(("lose", number), lambda: tuple(losses(self.part(number)))):
            others = [*processes[:place], after or processes[place], *processes[place + 1 :]]
            if astray is None:
                yield self.world(group, others, strays)
            elif len(strays) < self.strays:
                yield self.world(group, others, [*strays, astray])

    # --- how it happens -----

    def handle(self, world: World, place: int, what: tuple[Any, ...]) -> World:
        """A process handles something."""
        number = world.processes[place]
        after = self._once((number, what, world.group), lambda: self._handle(number, what, self.part(world.group)))
        group, processes, strays = self._of(world)
        processes[place] = after
        return self.world(group, processes, strays)

    def _handle(self, number: int, what: tuple[Any, ...], group: g.Group) -> Part:
        who: n.Process = self.part(number)
        match what:
            case ("reply" | "reply twice", at):
                reply = tuple(who.replies)[at]
                event: Any = ms.Replied(reply, who.member.outstanding)
                if what[0] == "reply":
                    who = replace(who, replies=who.replies - {reply})
            case ("push",):
                event, who = who.pushes[0], replace(who, pushes=who.pushes[1:])
            case ("work",):
                event, who = who.work[0], replace(who, work=who.work[1:])
            case _:
                event, who = ms.Stop(""), replace(who, requests=())
        return Part(self._at_once(self._handled(who, event, group), group))

    def _handled(self, who: n.Process, event: ms.MemberEvent, group: g.Group) -> n.Process:
        after, question = handled(who, event)
        if question is None:
            return after
        plan = ms.AssignmentComputed(self.plan(question, group.owned), question.generation)
        return replace(after, work=(*after.work, plan))

    def _at_once(self, who: n.Process, group: g.Group) -> n.Process:
        """All that the process has to do by itself, unless it takes its time."""
        while not self.slow and (who.replies or who.work):
            if who.replies:
                reply = next(iter(who.replies))
                rest = replace(who, replies=who.replies - {reply})
                who = self._handled(rest, ms.Replied(reply, who.member.outstanding), group)
            else:
                who = self._handled(replace(who, work=who.work[1:]), who.work[0], group)
        return who

    def plan(self, asking: ms.ComputeAssignment, since: Any) -> p.Assignments:
        """What the assignor says, which is the same for the same question."""
        key = (asking.protocol_name, asking.members, n.key(since))
        if key not in self._plans:
            members = subscriptions(asking.members, since)
            round_ = Round(asking.protocol_name, asking.members, {TOPIC: len(NUMBERS)}, since, {})
            self._plans[key] = plan(round_, members).assignments
        return self._plans[key]

    def heartbeat(self, world: World, place: int) -> World | None:
        """A heartbeat is sent, heard and answered at once; None where it changes nothing."""
        number = world.processes[place]
        part: Part = self._once(("beat", number, world.group), lambda: self._heartbeat(number, world.group))
        if part.value is None:
            return None
        group, processes, strays = self._of(world)
        processes[place] = part
        return self.world(group, processes, strays)

    def _heartbeat(self, number: int, group: int) -> Part:
        who: n.Process = self.part(number)
        member, (sent, *_) = m.step(replace(who.member, heartbeat_due_ms=0), p.Tick(), 0)
        assert isinstance(sent, ms.Send)
        after = decided(self.part(group), p.Received(ARRIVING, sent.request), pushed=self.slow)
        ((_, reply),) = after.answers
        assert isinstance(reply, p.HeartbeatReply)
        told = reply.error is ErrorCode.REBALANCE_IN_PROGRESS and member.state is ms.MemberState.SYNCING
        if reply.error is ErrorCode.NONE or (told and not self.slow):
            return NOTHING
        heard, _ = handled(replace(who, member=member), ms.Replied(reply, sent.request))
        return NOTHING if heard == who else Part(self._at_once(heard, self.part(group)))

    def arrive(self, world: World, place: int) -> World:
        """The oldest request of a process reaches the group."""
        number = world.processes[place]
        who: n.Process = self.part(number)
        rest = self._once(("sent", number), lambda: Part(replace(who, requests=who.requests[1:])))
        group, processes, strays = self._of(world)
        processes[place] = rest
        request = who.requests[0]
        after = self._once(
            (world.group, "request", number),
            lambda: decided(group.value, p.Received(ARRIVING, request), pushed=self.slow),
        )
        return self._told(group, after, processes, strays)

    def unheard(self, world: World, place: int) -> World:
        """A request arrives, and what it is answered at once is lost: the process asks again."""
        number = world.processes[place]
        who: n.Process = self.part(number)
        request = who.requests[0]
        group, processes, strays = self._of(world)
        processes[place] = self._once(("silent", number), lambda: Part(silent(who)))
        after = self._once(
            (world.group, "request", number),
            lambda: decided(group.value, p.Received(ARRIVING, request), pushed=self.slow),
        )
        answers = tuple(x for x in after.answers if x[0] != n.asked(request))
        return self._told(group, After(after.group, answers, after.pushes), processes, strays)

    def _arrival(self, stray: int, _group: g.Group) -> p.Event:
        return p.Received(ARRIVING, self.part(stray))

    def tick(self, world: World, what: tuple[Any, ...], due: Callable[[g.Group], g.Group]) -> World:
        """Something in the group is due."""
        group, processes, strays = self._of(world)
        after = self._once((world.group, what), lambda: decided(due(group.value), p.Tick(), pushed=self.slow))
        return self._told(group, after, processes, strays)

    def step(self, world: World, what: tuple[Any, ...], event: Callable[[g.Group], p.Event]) -> World:
        """The group steps."""
        group, processes, strays = self._of(world)
        after = self._once((world.group, what), lambda: decided(group.value, event(group.value), pushed=self.slow))
        return self._told(group, after, processes, strays)

    def _told(self, _group: Part, after: After, processes: list[Part], strays: list[Part]) -> World:
        for place, part in enumerate(processes):
            who: n.Process = part.value
            ask, member_id = n.asked(who.member.outstanding), who.member.member_id
            replies = [reply for to, reply in after.answers if ask is not None and to == ask]
            pushes = [push for to, push in after.pushes if to == member_id and who.member.state not in ENDED]
            if replies or pushes:
                key = (id(part), tuple(replies), tuple(pushes), id(after.group))
                processes[place] = self._once(key, partial(self._hears, part, replies, pushes, after)).part
        return self.world(after.group, processes, strays)

    def _hears(self, part: Part, replies: list[p.Reply], pushes: list[ms.Pushed], after: After) -> Kept:
        who: n.Process = part.value
        heard = who.replies | {n.message(x, n.Seen()) for x in replies}
        told = tidy(replace(who, replies=heard, pushes=(*who.pushes, *pushes)))
        return Kept((part, after), Part(self._at_once(told, after.group.value)))

    # --- what has to hold ---

    def check(self, number: int, world: World, *, quiet: bool) -> None:
        """I5 by asking; where nothing happens by itself and nobody is missed: I2, I3, and all know what they own."""
        for place in world.processes:
            self._once(("commits", world.group, place), partial(self._commits, world.group, place))
        held = [(tp, since) for x in world.processes for tp, since in self.part(x).member.owned.items()]
        assert len(held) == len(set(held)), "I1: two hold a partition since one generation"
        if not quiet or world.strays:
            return
        group: g.Group = self.part(world.group)
        living = [x.member for y in world.processes if (x := self.part(y)).member.state not in ENDED]
        if {x.member_id for x in living} != set(group.members):
            return
        self.settled.append(number)
        if not living:
            assert group.state == "Empty"
            return
        assert group.state == "Stable"
        assert not group.unsynced
        assert set(g.owners(group)) == set(PARTITIONS), "I2: every partition has an owner"
        for member in living:
            assert member.state is ms.MemberState.STABLE
            assert member.generation == group.generation, "I3: everybody is at the group's generation"
            assert dict(member.owned) == dict(g.owned(group, member.member_id))

    def _commits(self, number: int, place: int) -> bool:
        group: g.Group = self.part(number)
        member = self.part(place).member
        if not member.member_id:
            return True
        known = sorted({*self.parts[number].seen.generations, *self.parts[place].seen.generations, -1})
        positions = [p.CommittedPosition(*tp, 1, since) for tp in PARTITIONS for since in known]
        commit = p.OffsetCommit(member.member_id, member.config.group_instance_id, member.generation, tuple(positions))
        event = p.Received(COMMITTING, commit)
        decision = g.step(group, event, 0)
        check_step(group, event, decision)
        return True


def _over(member_id: str) -> Callable[[g.Group], g.Group]:
    return lambda group: expired(group, member_id)


def main() -> None:
    """Explore as far as told, and say how far that was."""
    parser = argparse.ArgumentParser(
        prog="make model", description="All reachable states of two members and three partitions."
    )
    parser.add_argument("--strays", type=int, default=0, help="requests that may be late at once")
    parser.add_argument("--faults", type=int, help="faults in one run; default: any number")
    parser.add_argument("--slow", action="store_true", help="processes take their time, and pushes count")
    said = parser.parse_args()
    explorer = Explorer(said.strays, slow=said.slow)
    explorer.explore(said.faults)
    assert not explorer.stuck()
    print(explorer.summary(), f"{time.process_time():.0f} s of CPU", sep=", ")  # noqa: T201


if __name__ == "__main__":
    main()
