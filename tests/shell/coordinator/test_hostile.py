"""Hostile input through the real port: what is refused changes nothing, and at every step the group's laws hold."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from sparkcohort.runtime import group as groups
from sparkcohort.runtime.group import validation
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.codec import decode, encode
from sparkcohort.runtime.protocol.consumer_protocol import Subscription, decode_assignment, encode_subscription
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator import admission
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.rpc.flight import GroupServer, Link
from sparkcohort.runtime.shell.rpc.tls import new_authority
from tests.kit.group_laws import check_step
from tests.kit.hostile import PARTITIONS, TOPIC, Ether, Hostile, wordless
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_until

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


def attack(port: Port, seed: int) -> list[Hostile]:
    """All clients send at once; whatever one of them asserts fails the test."""
    ether, failures = Ether(), []
    clients = [Hostile(port.link(), Random(seed * 1_000 + number), ether) for number in range(CLIENTS)]

    def run(client: Hostile) -> None:
        try:
            for _ in range(MESSAGES // CLIENTS):
                client.turn()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert failures == []
    return clients


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
    clients = attack(port, seed)
    port.check_steps()
    wait_until(lambda: len(honest(port)) == PARTITIONS, 30, "an honest member to be given everything")

    assert {record.getMessage() for record in caplog.records} == set()
    answers = Counter(wordless(reply) for step in port.steps for reply in replies(step))
    answers += Counter(map(wordless, port.at_the_door))
    got: Counter[bytes] = sum((client.replies for client in clients), Counter())
    assert got <= answers
    outcomes: Counter[str] = sum((client.outcomes for client in clients), Counter())
    assert outcomes.total() == MESSAGES // CLIENTS * CLIENTS
    met = {reply.error.name for step in port.steps for reply in replies(step) if hasattr(reply, "error")}
    states = Counter(step.decision.group.state.value for step in port.steps)
    print(outcomes, states, met, len(port.at_the_door))  # noqa: T201
    assert min(outcomes.values()) > MESSAGES // 100
    assert min(states[state] for state in ("PreparingRebalance", "CompletingRebalance", "Stable")) > MESSAGES // 1_000
    assert len(met) >= of_tier(quick=6, thorough=8)


def replies(step: Step) -> list[p.Reply]:
    """What a step answered."""
    return [action.reply for action in step.decision.actions if isinstance(action, p.Answer)]
