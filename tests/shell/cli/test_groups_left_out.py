"""``cohort groups --bootstrap-server`` where brokers tell nothing of some groups: what is not known is said."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sparkcohort.cli import kafka_group
from sparkcohort.runtime.shell.kafka import group_requests
from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.produce import produce


def failed(code: int) -> Future[Any]:
    """An answer that says so."""
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


KINDS: dict[str, Callable[[], Future[Any]]] = {
    "silent": Future,
    "away": lambda: failed(KafkaError.COORDINATOR_NOT_AVAILABLE),
    "denied": lambda: failed(KafkaError.GROUP_AUTHORIZATION_FAILED),
    "ended": lambda: failed(KafkaError.GROUP_ID_NOT_FOUND),
}


@pytest.fixture
def groups(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The names of groups with offsets, of all kinds and one that is well, by kind; the broker answers as their kinds say."""
    broker.admin.create_topic(topic)
    produce(broker.bootstrap, topic, 10)
    named = {kind: f"{topic}-{kind}" for kind in (*KINDS, "well")}
    for group in named.values():
        broker.admin.commit(group, topic, {0: 4})
    described = group_requests.describe_groups

    def some(admin: Any, asked: Sequence[str], **more: Any) -> dict[str, Future[Any]]:
        wrong = {named[kind]: make for kind, make in KINDS.items()}
        found = described(admin, [each for each in asked if each not in wrong], **more)
        return {each: wrong[each]() if each in wrong else found[each] for each in asked}

    monkeypatch.setattr(group_requests, "describe_groups", some)
    monkeypatch.setattr(kafka_group, "TIMEOUT_S", 2.0)
    return named


@pytest.mark.parametrize("output", ["json", "csv"])
def test_groups_that_are_not_described(broker: Broker, groups: dict[str, str], output: str) -> None:
    """A silent coordinator's has its row, of which the rest is unknown; of those that are denied their number is told."""
    said = cohort("groups", "--bootstrap-server", broker.bootstrap, "--output", output)
    assert said.returncode == 0, said.stderr
    rows = json.loads(said.stdout) if output == "json" else list(csv.DictReader(io.StringIO(said.stdout)))
    found = {str(row.get("group", row.get("GROUP"))): list(row.values())[1:] for row in rows}
    assert list(found) == sorted(found)
    nothing = [None if output == "json" else ""] * 4
    assert {kind: found.get(group, [None])[0] for kind, group in groups.items()} == {
        "silent": "unreachable",
        "away": "unreachable",
        "denied": None,
        "ended": None,
        "well": "Empty",
    }
    assert found[groups["silent"]][1:] == found[groups["away"]][1:] == nothing
    assert said.stderr.splitlines() == ["groups that are left out, since this user may not describe them: 1"]
