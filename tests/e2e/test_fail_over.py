"""A query that is started again in its application takes its group over: agents, partitions and what they have fetched."""

from __future__ import annotations

import os
import signal

import pytest

from tests.kit.application import Application, Query, owners
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import options

pytestmark = pytest.mark.timeout(600)  # a busy machine makes a query slow

EXECUTORS, PARTITIONS, PORTION = 3, 6, 600
SESSION_MS = 120_000  # longer than anything takes here, on a busy machine


def settings(broker: Broker, topic: str, **more: str) -> dict[str, str]:
    """The source's options."""
    return options(broker, topic, **{"session.timeout.ms": SESSION_MS, **more})


def flowing(application: Application, broker: Broker, topic: str) -> Query:
    """A query with all members, at the end of what is written."""
    broker.fill(topic, PORTION, PARTITIONS)
    query = application.start(topic, settings(broker, topic))
    query.wait_for_members(EXECUTORS)
    query.wait_for_no_lag()
    return query


@pytest.mark.thorough("a query that is started again beside its agents")
@pytest.mark.parametrize("how", ["stopped", "runner killed", "batch failed"])
def test_started_again_it_goes_on_with_its_agents(
    application: Application, broker: Broker, topic: str, how: str
) -> None:
    """The same processes own the same partitions in a higher generation, hand records over at once, and each comes once."""
    query = flowing(application, broker, topic)
    before, live = query.status(), query.live()
    assert before is not None and live is not None
    if how == "batch failed":
        (query.out / "_throw").touch()
    elif how == "runner killed":
        os.kill(live.pid, signal.SIGKILL)
    else:
        query.stop()
    produce(broker.bootstrap, topic, PORTION, partitions=PARTITIONS, first=PORTION // PARTITIONS)
    if how != "stopped":
        assert query.end() is not None

    again = application.start(topic, settings(broker, topic))
    after = again.wait_for_members(EXECUTORS)
    again.wait_for_no_lag()
    assert again.live() != live and again.live().run == live.run  # type: ignore[union-attr]  # it lives
    assert after["generation"] > before["generation"]
    assert owners(after) == owners(before), "no member is new, and nothing moved"
    assert {m["member_id"]: m["pid"] for m in after["members"]} == {m["member_id"]: m["pid"] for m in before["members"]}
    # Spark may give both tasks to one executor, whose second one has the other's slot, and reads that directly.
    again.wait_for_status(lambda status: status["audit"]["records_from_agent"] > 0, "records from agents")
    again.assert_exact(broker)
