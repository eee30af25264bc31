"""What one process of the model check's does and undergoes by itself (see ``check``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import member_machine as m
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from tests.kit.group_laws import check_step
from tests.model import names as n
from tests.model.names import Process, asked

ENDED = {ms.MemberState.LEFT, ms.MemberState.FAILED}

ARRIVING = 98  # correlation of the request that arrives; that of a parked one is the place of its member


class Part:
    """A group, a process or a stray request, with the numbers that it knows."""

    __slots__ = ("member_id", "named", "seen", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.seen = n.Seen()
        walked(value, self.seen)
        self.named: dict[object, int] = {}
        self.member_id = value.member.member_id if isinstance(value, Process) else ""


def walked(value: Any, names: n.Seen) -> Any:
    """A part under other names."""
    match value:
        case g.Group():
            return n.of_group(value, names)
        case Process():
            return n.of_process(value, names)
    return n.message(value, names)


class World(NamedTuple):
    """Everything at one moment, as numbers of canonical parts; ``strays`` are requests whose sender doesn't wait any more."""

    group: int
    processes: tuple[int, ...]
    strays: tuple[int, ...] = ()


class After(NamedTuple):
    """What comes of a step of the group: the group, its answers, and its pushes."""

    group: Part
    answers: tuple[tuple[object, p.Reply], ...]
    pushes: tuple[tuple[str, ms.Pushed], ...]


class Kept:
    """Keeps the part whose identity is a key."""

    def __init__(self, key: object, part: Part) -> None:
        self.key, self.part = key, part


NOTHING = Part.__new__(Part)
NOTHING.value = None


def fresh(config: ms.MemberConfig, joins: int) -> Part:
    """A process that has just started; its joins have higher numbers than its predecessor's."""
    return Part(handled(Process(ms.Member(config, joins=joins)), ms.Start())[0])


def forgotten(who: Process) -> Part:
    """What becomes of a process that the group has removed."""
    member = who.member
    if member.state in ENDED or member.state is ms.MemberState.STOPPING:
        return Part(tidy(Process(ms.Member(member.config, ms.MemberState.LEFT))))
    return fresh(member.config, member.joins)


def silent(who: Process) -> Process:
    """A process that gets no answer."""
    event = ms.Unreachable(type(who.member.outstanding).__name__)
    return handled(replace(who, replies=frozenset(), requests=()), event)[0]


def losses(who: Process) -> Iterator[tuple[Part | None, Part | None]]:
    """What becomes of a process, and which request is astray."""
    outstanding = who.member.outstanding
    if who.pushes:
        yield Part(replace(who, pushes=who.pushes[1:])), None
    for request in who.requests:
        yield None, Part(request)  # a copy
        if outstanding is None:
            yield Part(replace(who, requests=())), None
    if outstanding is None:
        return
    quiet = silent(who)
    yield Part(quiet), None
    for request in who.requests:
        yield Part(quiet), Part(request)


def expired(group: g.Group, *member_ids: str) -> g.Group:
    """A group whose sessions of these are over."""
    return replace(group, sessions={**group.sessions, **dict.fromkeys(member_ids, 0)})


def handled(who: Process, event: ms.MemberEvent) -> tuple[Process, ms.ComputeAssignment | None]:
    """A member steps; what it wants done is on its way, but for an assignment to be computed."""
    before = who.member
    member, actions = m.step(before, event, 0)
    if member.retry_due_ms is not None:  # it tries again at once
        member, again = m.step(replace(member, retry_due_ms=0), p.Tick(), 0)
        actions += again
    if before.state is ms.MemberState.JOINING and member.generation > 0 and before.generation > 0:
        joined = member.state in {ms.MemberState.SYNCING, ms.MemberState.COMPUTING}
        assert not joined or member.generation > before.generation
    requests, work, question = list(who.requests), list(who.work), None
    for action in actions:
        match action:
            case ms.Send(request):
                requests.append(request)
            case ms.ComputeAssignment():
                question = action
            case ms.Revoke():
                work.append(ms.RevocationDone())
            case ms.Failed(error, message) if error is not ErrorCode.GROUP_MAX_SIZE_REACHED:
                raise AssertionError(f"{error.name}: {message}")
    replies = who.replies if asked(member.outstanding) == asked(who.member.outstanding) else frozenset()
    return tidy(Process(member, replies, who.pushes, tuple(work), tuple(requests))), question


def tidy(who: Process) -> Process:
    """A process without what it would ignore."""
    member = who.member
    if member.state in ENDED:
        left = ms.Member(member.config, member.state, member.member_id)
        return Process(left, requests=tuple(x for x in who.requests if isinstance(x, p.LeaveGroup)))
    joining = member.state is ms.MemberState.JOINING
    pushes = tuple(x for x in who.pushes if x.generation > member.generation - (not joining))
    after = member.rejoin_after
    if joining and after is not None and after <= member.generation:
        after = None
    computing = member.state is ms.MemberState.COMPUTING
    work = tuple(
        x
        for x in who.work
        if isinstance(x, ms.RevocationDone) or (computing and getattr(x, "generation", 0) == member.generation)
    )
    member = replace(member, heartbeat_sent=None, rejoin_after=after, leads=False)
    if joining:
        member = replace(member, protocol_name="")
    return replace(who, member=member, pushes=pushes, work=work)


def decided(group: g.Group, event: p.Event, *, pushed: bool) -> After:
    """A step of the group, under its laws; a heartbeat may change nothing."""
    decision = g.step(group, event, 0)
    check_step(group, event, decision)
    request = event.request if isinstance(event, p.Received) else None
    parked = {}
    for place, (member_id, member) in enumerate(group.members.items(), 1):
        if member_id in group.joins:
            parked[place] = ("join", member.client_id, member.attempt)
        elif member_id in group.syncs:
            parked[place] = ("sync", member_id, group.generation)
    answers, pushes = [], []
    for action in decision.actions:
        match action:
            case p.Answer(number, reply):
                ask = asked(request) if number == ARRIVING else parked[number]
                answers.append((ask, reply))
            case p.PushRejoin(member_id, _, generation) if pushed:
                pushes.append((member_id, ms.Pushed("", generation)))
    if isinstance(request, p.Heartbeat):
        known = n.Seen()
        assert n.key(n.of_group(decision.group, known)) == n.key(n.of_group(group, known))
    return After(Part(decision.group), tuple(answers), tuple(pushes))
