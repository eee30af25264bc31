"""Hostile input through the real port: what is refused changes nothing, and at every step the group's laws hold."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from sparkcohort.runtime import group as groups
from sparkcohort.runtime.group import validation
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.codec import decode, encode
from sparkcohort.runtime.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator import admission
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.rpc.flight import CoordinatorRefused, CoordinatorUnreachable, GroupServer, Link
from sparkcohort.runtime.shell.rpc.tls import new_authority
from tests.kit.group_laws import check_step
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

TOPIC, PARTITIONS = "t", 6
MESSAGES, CLIENTS = of_tier(quick=3_000, thorough=12_000), 8


class Step(NamedTuple):
    """One step that the coordinator's group took."""

    before: groups.Group
    event: p.Event
    decision: groups.Decision


class Port:
    """A coordinator behind its port; every step of its group is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[Step] = []
        self._links: list[Link] = []
        self.at_the_door: list[p.Reply] = []
        self._decide, self._refused = groups.decide, admission.refused
        monkeypatch.setattr(groups, "decide", self._step)
        monkeypatch.setattr(admission, "refused", self._refuse)
        self.authority = new_authority()
        settings = GroupSettings("g", "run", 1000, 2_000, 500, 2_000, ("cooperative-sticky", "range"))
        self.coordinator = Coordinator(settings, lambda: {TOPIC: PARTITIONS})
        self.coordinator.start()
        service = Service(self.coordinator, PlanRegistry(), failure=lambda: None, status=dict)
        self.server = GroupServer(
            self.authority, service.handlers(), service.subscribe, service.unsubscribe, host="127.0.0.1"
        )

    def _step(self, group: groups.Group, event: p.Event, now_ms: int) -> groups.Decision:
        decision = self._decide(group, event, now_ms)
        self.steps.append(Step(group, event, decision))
        return decision

    def _refuse(self, request: p.Request, refusal: validation.Refusal) -> p.Reply:
        self.at_the_door.append(self._refused(request, refusal))
        return self.at_the_door[-1]

    def check_steps(self) -> None:
        """The laws of every step so far."""
        for before, event, decision in list(self.steps):
            check_step(before, event, decision)

    def link(self) -> Link:
        """A connection of a member of this run."""
        self._links.append(Link("127.0.0.1", self.server.port, self.authority.client))
        return self._links[-1]

    def stop(self) -> None:
        """Stop all of it; a stream that is open keeps the server waiting."""
        self.coordinator.stop()
        for link in self._links:
            link.close()
        self.server.stop(5)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[Port]:
    """A running port; nothing may have gone wrong inside the coordinator."""
    caplog.set_level(logging.ERROR, "sparkcohort")
    running = Port(monkeypatch)
    yield running
    running.stop()


def drawn(random: Random, group: groups.Group) -> p.Request:
    """What anybody may ask now: of a member that there is or not, of this generation or another, of any partitions."""
    ids = [(x.member_id, x.group_instance_id) for x in group.members.values() if x.group_instance_id != "driver"]
    ids += [(member_id, None) for member_id in group.pending]
    member_id, instance = random.choice([*ids, *ids, ("", random.choice([None, None, "i0", "i1"])), ("x-9", None)])
    generation = group.generation + random.choice([0] * 12 + [-1, 1, -1_000])
    numbers = random.sample(range(PARTITIONS + 1), random.randint(0, 3))
    partitions = tuple(TopicPartition(TOPIC, number) for number in sorted(numbers))
    weights = {"PreparingRebalance": (60, 15), "CompletingRebalance": (12, 40)}.get(group.state.value, (12, 15))
    match random.choices(("join", "sync", "heartbeat", "leave", "commit"), (*weights, 18, 4, 18))[0]:
        case "join":
            topics = random.choice([(TOPIC,), (TOPIC,), ()])
            said = encode_subscription(Subscription(topics, random.choice([None, b"[]"]), partitions, generation))
            offered = [
                p.Protocol(name, said) for name in random.choice([("cooperative-sticky", "range"), ("range",), ("x",)])
            ]
            times = random.choice([80, 150, 400]), random.choice([30, 60, 120])
            return p.JoinGroup(member_id, instance, "c", "h", *times, "consumer", tuple(offered), "why not")
        case "sync":
            plan = [(member, encode_assignment(Assignment(partitions))) for member in group.members]
            return p.SyncGroup(
                member_id, instance, generation, "consumer", None, tuple(plan) if random.random() < 0.1 else ()
            )
        case "heartbeat":
            return p.Heartbeat(member_id, instance, generation)
        case "leave":
            return p.LeaveGroup((p.LeavingMember(member_id, instance, "enough"),))
    owned = [(tp, since) for tp, since in groups.owned(group, member_id).items()][:2]
    positions = [p.CommittedPosition(*tp, random.choice([7, -1, 2**62]), since) for tp, since in owned]
    positions += [p.CommittedPosition(*tp, 7, generation) for tp in partitions[:1]]
    return p.OffsetCommit(member_id, instance, generation, tuple(positions))


def speaks_as_driver(request: p.Request) -> bool:
    """Whether the port has to refuse it: the driver's id is the first, and stays."""
    speakers = request.members if isinstance(request, p.LeaveGroup) else (request,)
    return "driver-run-1" in {getattr(speaker, "member_id", None) for speaker in speakers}


def attack(port: Port, seed: int) -> Counter[bytes]:
    """All clients send at once; the replies.  Whatever one of them asserts fails the test."""

    def run(number: int) -> Counter[bytes]:
        random, link, replies = Random(seed * 1_000 + number), port.link(), Counter[bytes]()
        for _ in range(MESSAGES // CLIENTS):
            request = drawn(random, port.coordinator.group)
            parked = isinstance(request, p.JoinGroup | p.SyncGroup)
            try:
                replies[
                    wordless(decode(link.call(type(request).__name__, encode(request), 0.02 if parked else 5.0)))
                ] += 1
            except CoordinatorUnreachable:
                assert parked, request
            except CoordinatorRefused:
                assert speaks_as_driver(request), request
        return replies

    with ThreadPoolExecutor(CLIENTS) as clients:
        return sum(clients.map(run, range(CLIENTS), timeout=90), Counter())


def wordless(reply: Any) -> bytes:
    """A reply without its message, to which the port adds the story of a member that is gone."""
    return encode(structs.replace(reply, message=""))


def honest(port: Port) -> dict[TopicPartition, int]:
    """What a member that keeps to the protocol is assigned, when all others have been put out."""
    link = port.link()

    def call(request: p.Request) -> object:
        return decode(link.call(type(request).__name__, encode(request), 10))

    others = [m for m, x in port.coordinator.group.members.items() if x.group_instance_id != "driver"]
    call(p.LeaveGroup(tuple(p.LeavingMember(m, port.coordinator.group.members[m].group_instance_id) for m in others)))
    offered = (p.Protocol("cooperative-sticky", encode_subscription(Subscription((TOPIC,)))),)
    member_id = ""
    while True:
        joined = call(p.JoinGroup(member_id, None, "honest", "h", 5_000, 2_000, "consumer", offered))
        assert isinstance(joined, p.JoinGroupReply)
        member_id = joined.member_id
        if joined.error != ErrorCode.NONE:
            assert joined.error == ErrorCode.MEMBER_ID_REQUIRED
            continue
        synced = call(p.SyncGroup(member_id, None, joined.generation))
        assert isinstance(synced, p.SyncGroupReply)
        if synced.error == ErrorCode.NONE:
            assigned = decode_assignment(synced.assignment).partitions if synced.assignment else ()
            return dict.fromkeys(assigned, joined.generation)


@pytest.mark.timeout(180)
def test_whatever_is_sent(port: Port, caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of messages from 8 clients: law and twin agree on every step, and on the wire stands what the group answered."""
    seed = Random().randrange(10**6)
    print(f"seed {seed}")  # noqa: T201  a failure is looked into with it
    wait_until(lambda: port.coordinator.group.state == "Stable", 5, "the driver to have joined")
    got = attack(port, seed)
    port.check_steps()
    wait_until(lambda: len(honest(port)) == PARTITIONS, 30, "an honest member to be given everything")

    assert {record.getMessage() for record in caplog.records} == set()
    answers = Counter(map(wordless, (*(reply for step in port.steps for reply in replies(step)), *port.at_the_door)))
    assert got <= answers
    states = Counter(step.decision.group.state.value for step in port.steps)
    assert min(states[state] for state in ("PreparingRebalance", "CompletingRebalance", "Stable")) > MESSAGES // 1_000


def replies(step: Step) -> list[p.Reply]:
    """What a step answered."""
    return [action.reply for action in step.decision.actions if isinstance(action, p.Answer)]
