"""A process that doesn't reach a broker which others reach: it is noticed, barred, read for, and let back."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.group.validation import MemberInfo
from sparkcohort.runtime.leader import reachability
from sparkcohort.runtime.protocol.calls import Silent
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import SILENT_S, Prefetcher
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.reachability_watch import (
    CONFIRM_MS,
    PAUSE_MS,
    PROBE_S,
    ReachabilityWatch,
)
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.kafka.fetch import assigned_partition
from sparkcohort.runtime.shell.kafka.fetch import relay as relaying
from sparkcohort.runtime.shell.kafka.fetch.first_answers import probe_leaders
from sparkcohort.runtime.shell.kafka.fetch.range_reader import DataLossError, FetchError, RangeReader
from sparkcohort.runtime.shell.kafka.fetch.relay import Relay, RelayedReader
from sparkcohort.runtime.shell.rpc.clock import now_ms
from tests.kit.broker import Broker
from tests.kit.buffered import buffered, silent
from tests.kit.produce import produce
from tests.kit.ranges import batches_to_rows, offsets
from tests.kit.relay import Relay as Way
from tests.kit.shared_brokers import Guarded
from tests.kit.waiting import hold_for, wait_until

MEMBERS = {"m-1": MemberInfo("m-1", "1", "worker-1", 2, 1, "a"), "m-2": MemberInfo("m-2", "2", "worker-2", 2, 2, "b")}


@dataclass
class TwoWays:
    """One broker: the way there that everybody has, and one that can be cut."""

    broker: Broker
    way: Way
    bootstrap: str

    def __post_init__(self) -> None:
        self.everybody = {"bootstrap.servers": self.broker.bootstrap}
        self.cut_off = {"bootstrap.servers": self.bootstrap}

    def relay(self, patience_ms: int = 2_000) -> Relay:
        """The driver's, which has the good way."""
        return Relay(lambda: RangeReader(self.everybody, poll_timeout_ms=patience_ms))


@pytest.fixture(scope="module")
def ways(guarded: Guarded) -> TwoWays:
    """A broker with two listeners, one behind a relay."""
    return TwoWays(guarded, guarded.way, guarded.at["RELAYED"])


@pytest.fixture
def topic(ways: TwoWays, topic: str) -> str:
    """A topic of two partitions with a thousand records each."""
    ways.broker.admin.create_topic(topic, 2)
    produce(ways.broker.bootstrap, topic, 2_000, partitions=2)
    return topic


SILENT = "its leader does not answer here"


class Everything(list[TopicPartition]):
    """All partitions there may be."""

    def __contains__(self, _: object) -> bool:
        """It is one of them."""
        return True


def through(relay: Relay) -> RelayedReader:
    """A task's way through the driver."""
    return RelayedReader(lambda body: relay.answer(body, Everything()))


def test_a_leader_that_falls_silent_is_noticed_and_waited_for_no_more(ways: TwoWays, topic: str) -> None:
    """Whether there is something to read or not: the owner says so within seconds, and takes it back when all is well."""
    prefetcher = Prefetcher(ways.cut_off)
    tps = {TopicPartition(topic, number): 0 for number in range(2)}
    prefetcher.assign(tps)
    wait_until(lambda: all(stats.position == 1_000 for stats in buffered(prefetcher).values()), 30, "all to be fetched")
    hold_for(lambda: not silent(prefetcher), 1.0, "nobody is silent")
    ways.way.hold()
    wait_until(lambda: len(silent(prefetcher)) == 2, 30, "the silence to be noticed")
    assert all(position == 1_000 and why.startswith(SILENT) for position, why in silent(prefetcher).values())
    wanted = Range(topic, 0, 990, 1_010)
    steps = list(prefetcher.serve([wanted], [0], 1))
    assert sum(step.batch.num_rows for step in steps if step.batch is not None) == 10
    assert steps[-1].missed[0][1].startswith(SILENT)
    ways.way.release()
    wait_until(lambda: not silent(prefetcher), 30, "the leader to be heard again")
    prefetcher.close()


@pytest.mark.thorough("seconds of a slow leader")
def test_a_slow_leader_is_not_a_silent_one(ways: TwoWays, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while its bytes come slowly nor while they pause in the middle of an answer; who looks sees it as slow, too."""
    tp, slow_s = TopicPartition(topic, 0), 4.0
    monkeypatch.setattr(assigned_partition, "SLOW_S", slow_s)
    produce(ways.broker.bootstrap, topic, 4_000, partitions=2, first=1_000, value_bytes=1_000)
    ways.way.rate(20_000)
    prefetcher = Prefetcher(ways.cut_off)
    try:
        prefetcher.assign({tp: 1_000})
        hold_for(lambda: not silent(prefetcher), SILENT_S + slow_s + 2, "a slow leader is heard")
        assert probe_leaders(ways.cut_off, {tp: 1_000}, PROBE_S) == frozenset()
        ways.way.hold()
        hold_for(lambda: not silent(prefetcher), SILENT_S + 2, "a pause in an answer is no silence yet")
        wait_until(lambda: tp in silent(prefetcher), SILENT_S + slow_s + 30, "a long one to be one")
    finally:
        ways.way.rate(None)
        ways.way.release()
        prefetcher.close()


def test_what_a_task_cannot_read_comes_through_the_driver(ways: TwoWays, topic: str) -> None:
    """From where it stands, in order, each offset once, also where a partition has several ranges."""
    relay = ways.relay()
    reader = RangeReader(ways.cut_off, poll_timeout_ms=60_000, elsewhere=through(relay))
    ranges = [Range(topic, 0, 0, 400), Range(topic, 0, 500, 1_000), Range(topic, 1, 7, 993)]
    pieces = reader.read(ranges)
    first = next(pieces)
    ways.way.hold()
    got = [first, *pieces]
    for number in range(2):
        mine = [(position, batch) for tp, position, batch in got if tp.partition == number]
        wanted = [at for each in ranges if each.partition == number for at in range(each.start, each.end)]
        assert offsets(batches_to_rows(mine)) == wanted
    reader.close()


def test_where_the_driver_gets_nothing_either_the_task_fails_as_it_would_have(ways: TwoWays, topic: str) -> None:
    """After its own time, with both reasons; records that are lost are lost there, too."""
    ways.way.hold()
    nobody = Relay(lambda: RangeReader(ways.cut_off, poll_timeout_ms=500))
    reader = RangeReader(ways.cut_off, poll_timeout_ms=5_000, elsewhere=through(nobody))
    with pytest.raises(FetchError, match=r"no progress at offset 0 for 5000 ms.*through the driver: .*no progress"):
        list(reader.read([Range(topic, 0, 0, 10)]))
    reader.close()
    relay = ways.relay()
    ways.broker.admin.delete_records(topic, {0: 100})
    with pytest.raises(DataLossError, match="the log starts at 100"):
        through(relay).read([Range(topic, 0, 0, 10)], {})


def test_a_relay_bounds_what_it_is_asked_for(ways: TwoWays, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few megabytes a call, one reader a caller; nonsense and strange partitions are refused at the door."""
    monkeypatch.setattr(relaying, "PIECE_BYTES", 1)
    relay = ways.relay()
    asked, calls = Range(topic, 0, 0, 1_000), 0
    while asked.start < asked.end:
        pieces, error = relay.read([asked], {})
        assert error is None and pieces
        asked, calls = asked._replace(start=pieces[-1][1]), calls + 1
    for wrong in (
        [[topic, 0, 5, 5]], [[topic, 0, -1, 5]], [[topic, 0, 0, 1 << 64]], [[topic, 0, 0, 5], [topic, 0, 5, 6]],
        [["another", 0, 0, 5]], [[topic]], [[topic, number, 0, 1] for number in range(10_001)],
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError)):
            relay.answer(json.dumps({"ranges": wrong, "ids": {}}).encode(), [TopicPartition(topic, 0)])


def test_whether_a_leader_answers(ways: TwoWays, topic: str) -> None:
    """With records, at the log's end and beyond it; not by the way that is cut."""
    tps = {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 1_000}
    assert probe_leaders(ways.cut_off, tps, 20) == tps.keys()
    assert probe_leaders(ways.everybody, dict.fromkeys(tps, 5_000), 20) == tps.keys()
    ways.way.hold()
    assert probe_leaders(ways.cut_off, tps, 1) == frozenset()
    assert probe_leaders(ways.everybody, tps, 20) == tps.keys()


def test_a_member_is_barred_from_what_the_driver_reaches(
    ways: TwoWays, topic: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told once with name and reason; let back when it has reached the leader for a while, and its hold is over."""
    monkeypatch.setattr(reachability, "HOLD_MS", 3_000)
    monkeypatch.setattr(reachability, "GOOD_MS", 500)
    tps = {
        TopicPartition(topic, 0): Silent(topic, 0, 10, "no answer"),
        TopicPartition(topic, 1): Silent(topic, 1, 10, "no answer"),
    }
    reasons: list[str] = []
    watch = ReachabilityWatch(partial(probe_leaders, ways.everybody), lambda: MEMBERS, reasons.append)
    with caplog.at_level(logging.INFO, "sparkcohort.reachability"):
        wait_until(lambda: watch.record_report("m-1", tps) == sorted(tps), 30, "the member to be barred")
        assert watch.record_report("m-1", tps) == sorted(tps)
    assert reasons == [f"m-1 can't fetch {topic}-0, {topic}-1"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "executor-1 on worker-1 can't fetch" in caplog.text and "no answer" in caplog.text
    assert {(row["executor"], row["partition"], row["why"]) for row in watch.described()} == {
        ("1", 0, "no answer"), ("1", 1, "no answer"),
    }  # fmt: skip
    assert watch.record_report("m-2", {}) == []
    wait_until(lambda: not watch.record_report("m-1", {}, tps), 60, "the member to be let back")
    assert reasons[1:] == [f"m-1 can fetch {topic}-0, {topic}-1 again"]


def test_nobody_is_barred_for_a_leader_that_answers_nobody(ways: TwoWays, topic: str) -> None:
    """Then the fault is the broker's; and who looks in vain looks ever more rarely."""
    ways.way.hold()
    watch = ReachabilityWatch(partial(probe_leaders, ways.cut_off), lambda: MEMBERS, lambda _: None)
    tps = {TopicPartition(topic, 0): Silent(topic, 0, 10, "no answer")}
    for _ in range(20):
        assert watch.record_report("m-1", tps) == []
    assert watch._next_probe_ms - now_ms() > PAUSE_MS / 2, "it is not asked again at once"


def test_a_leader_that_was_away_for_all_bars_nobody(ways: TwoWays, topic: str) -> None:
    """It answers the driver a moment before it answers the member: that is no cut."""
    watch = ReachabilityWatch(partial(probe_leaders, ways.everybody), lambda: MEMBERS, lambda _: None)
    stuck = {TopicPartition(topic, 0): Silent(topic, 0, 10, "no answer")}
    wait_until(lambda: watch.record_report("m-1", stuck) or watch._answered_driver, 30, "the driver to have an answer")
    assert watch.record_report("m-1", {}) == [] and not watch._answered_driver
    hold_for(lambda: not watch.record_report("m-1", {}), CONFIRM_MS / 1000, "nobody to be barred")


def test_the_coordinators_port_has_it_all(ways: TwoWays, topic: str) -> None:
    """An owner tells what doesn't answer, and hears what it is to try; what a task can't read is read for it."""
    tps = [TopicPartition(topic, number) for number in range(2)]
    coordinator = Coordinator(GroupSettings("g", "r", 0, 2_000, 200, 5_000, ("range",)), lambda: {topic: 2})
    coordinator.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coordinator, "members", lambda: MEMBERS)
        patch.setattr(coordinator, "owners", lambda: {tps[0]: "m-1", tps[1]: "m-2"})
        watch, relay, plans = (
            ReachabilityWatch(partial(probe_leaders, ways.everybody), lambda: MEMBERS, coordinator.trigger),
            ways.relay(),
            PlanRegistry(),
        )
        plans.register("p", [Slot(None, (Range(*tp, 0, 1_000),)) for tp in tps])
        service = Service(
            coordinator, plans, failure=lambda: None, status=dict, abilities=watch,
            relay=lambda body: relay.answer(body, tps),
        )  # fmt: skip
        call = caller(service)
        silent = [[topic, number, 10, "no\nanswer"] for number in range(2)]
        said = {"member": "m-1", "fetched": [], "silent": silent, "reached": None}
        wait_until(lambda: call("Fetched", said)["barred"] == [[topic, 0, 1_000]], 30, "what it owns to be barred")
        for wrong in (
            {**said, "silent": [[topic]]},
            {**said, "reached": [3]},
            {**said, "silent": [[topic, "x", 1, ""]]},
        ):
            with pytest.raises((ValueError, TypeError)):
                call("Fetched", wrong)
        claims = [call("Claim", {"plan": "p", "index": index, "address": "a"})["ranges"] for index in range(2)]
        assert claims == [[[topic, 1, 0, 1_000]], [[topic, 0, 0, 1_000]]], "what it doesn't reach comes last"
        task = RelayedReader(service.handlers()["Read"])
        assert sum(batch.num_rows for _, _, batch in task.read([Range(*tps[0], 0, 50)], {}) if batch is not None) == 50
        alone = Service(coordinator, plans, failure=lambda: CohortError("fenced", "FENCED_INSTANCE_ID"), status=dict)
        for body in (b"{}", b'{"ranges": []}'):
            with pytest.raises(ValueError, match="nobody reads"):
                alone.handlers()["Read"](body)
    coordinator.stop()


def caller(service: Service) -> Callable[[str, Any], Any]:
    """Asks a service, in values."""
    handlers = service.handlers()
    return lambda action, said: json.loads(handlers[action](json.dumps(said).encode()))
