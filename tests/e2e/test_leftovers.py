"""What stays behind when queries end: nothing."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import psutil
import pytest

from tests.kit import processes
from tests.kit.agents import gone
from tests.kit.application import Application
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import options
from tests.kit.tier import of_tier
from tests.kit.waiting import wait_for_none, wait_until

SHORT, LIMIT_S = of_tier(quick=1, thorough=4), 240


@pytest.mark.timeout(900)
def test_short_queries_leave_nothing(application: Application, broker: Broker, topic: str) -> None:
    """Each ends by itself: when its runner is gone, so are its file, lock, port and agents, and the next one takes over."""
    broker.admin.create_topic(topic, 3)
    others = application.driver.agents()  # of queries of other tests, whose sessions are long
    for number in range(SHORT):
        produce(broker.bootstrap, topic, 300, partitions=3, first=100 * number)
        # The same query again and again, as a scheduler starts it; its gate is closed until it has been looked at.
        query = application.start(topic, options(broker, topic), trigger={"availableNow": True}, gate=-1)
        query.wait_for("begin", number)
        found = query.wait(query.live, LIMIT_S, "its coordinator")
        run_id, port = found.run.run_id, found.run.port
        file, runner = application.directory / "home" / f"{run_id}.json", psutil.Process(found.pid)
        assert file.exists() and port in _ports(application)
        assert file.stat().st_mode & 0o777 == 0o600
        assert len(_locks(application)) == 1
        query.allow(number)
        assert query.end() is None
        wait_until(lambda: gone(runner), LIMIT_S, "the runner to be gone", every_s=0.01)  # noqa: B023
        assert not file.exists()
        assert port not in _ports(application)
        assert _locks(application) == []
        agents = partial(_agents_besides, application, others)
        wait_for_none(lambda: [*agents(), *_sockets(run_id)], LIMIT_S, "its agents to be gone")  # noqa: B023


def _agents_besides(application: Application, others: list[psutil.Process]) -> list[psutil.Process]:
    """The agents that were not there before."""
    return [agent for agent in application.driver.agents() if agent not in others]


def _sockets(run_id: str) -> list[str]:
    """The sockets of a run."""
    return [name for name in processes.sockets() if run_id in name]


def _locks(application: Application) -> list[str]:
    """The locks of instance ids that this application's readers hold; other applications of this machine have theirs."""
    ours = tuple(f"@cohort-reader-{process.pid}-" for process in application.driver.processes())
    return [name for name in processes.sockets() if name.startswith(ours)]


def _ports(application: Application) -> set[int]:
    """The TCP ports on which the application's processes listen."""
    found: set[int] = set()
    for process in application.driver.processes():
        with suppress(psutil.Error):  # it has ended
            found |= {each.laddr.port for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN}
    return found
