"""A group of real agents: a coordinator, a mock broker with records, and processes that stand for executors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa

from sparkcohort.runtime import group as groups
from sparkcohort.runtime.batches.claims import Slot
from sparkcohort.runtime.group.validation import MemberInfo
from sparkcohort.runtime.protocol.messages import LeaveGroup, LeavingMember
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.agent_config import AgentConfig, encode_config
from sparkcohort.runtime.shell.agent.task_client import TaskClient
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.group_settings import GroupSettings
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.coordinator.service import Service
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.executor import Executor, start_agent
from sparkcohort.runtime.shell.rpc.flight import GroupServer
from sparkcohort.runtime.values.columns import KAFKA_ROW, Columns
from tests.kit.mock import MockCluster
from tests.kit.produce import produce
from tests.kit.ranges import Missed, one_by
from tests.kit.relay import Relay
from tests.kit.waiting import wait_until

TOPIC, PARTITIONS, RECORDS = "orders", 3, 300
ASSIGNORS = ("cooperative-sticky", "range")


class World:
    """A coordinator, a mock broker with records, and processes that stand for executors."""

    def __init__(
        self, mock: MockCluster, assignors: tuple[str, ...] = ASSIGNORS, load_window_ms: int = 0, run_id: str = "run"
    ) -> None:
        self.run_id = run_id
        if run_id == "run":  # other runs have the first one's records
            mock.create_topic(TOPIC, PARTITIONS)
            produce(mock.bootstrap, TOPIC, RECORDS, partitions=PARTITIONS)
        self.bootstrap = mock.bootstrap
        self.session_timeout_ms, self.rebalance_timeout_ms = 2_000, 5_000
        self.listener, self.paths = "", list[str]()
        self.assignors = assignors
        self.columns: Columns = KAFKA_ROW
        self.load_window_ms = load_window_ms
        self.racks: dict[str, list[frozenset[str]]] = {}
        self.authority = new_authority()
        self._begin(GroupSettings("g", "run", 0, 2_000, 200, 5_000, assignors))
        self.plans.register("p", [Slot(None, tuple(Range(TOPIC, p, 0, 10) for p in range(PARTITIONS)))])
        self.executors: list[subprocess.Popen[bytes]] = []
        self.agents: set[int] = set()
        self.relay: Relay | None = None

    def _begin(self, settings: GroupSettings, before: groups.Group | None = None, port: int = 0) -> None:
        self.plans = PlanRegistry()
        self.coordinator = Coordinator(settings, lambda: {TOPIC: PARTITIONS}, racks=lambda: self.racks)
        self.coordinator.start(before)
        service = Service(self.coordinator, self.plans, failure=lambda: None, status=dict)
        self.server = GroupServer(
            self.authority, service.handlers(), service.subscribe, service.unsubscribe, host="127.0.0.1", port=port
        )
        self.port = self.server.port

    def begin_again(self, before: groups.Group, first_generation: int) -> None:
        """The next run of the coordinator, at the same port and with the same credentials; ``before`` is the group that it takes over."""
        settings = replace(self.coordinator.settings, first_generation=first_generation)
        self._begin(settings, before, self.port)

    def be_behind_relay(self) -> None:
        """Members that start from now on reach the coordinator by a relay, which a test can close: a server that stops serves its open streams."""
        self.relay = Relay("127.0.0.1", self.server.port)

    def executor(self, name: str) -> Executor:
        """A process that lives until it is killed."""
        process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        self.executors.append(process)
        # Popen returns while exec is still under way, and what the agent's name is made of is not there yet.
        secret = Path(f"/proc/{process.pid}/auxv")
        wait_until(lambda: any(secret.read_bytes()), 60, "the executor to have begun", every_s=0.001)
        return Executor(process.pid, int(psutil.Process(process.pid).create_time()), name, "host", 2)

    def config(self, executor: Executor, rack: str = "") -> AgentConfig:
        """What a task would tell the agent of this executor."""
        return AgentConfig(
            address=executor.address(self.run_id),
            executor=executor,
            host="127.0.0.1",
            port=self.relay.port if self.relay else self.server.port,
            credentials=self.authority.client,
            kafka={"bootstrap.servers": self.bootstrap},
            columns=self.columns,
            fail_on_data_loss=True,
            poll_timeout_ms=120_000,
            buffer_bytes=8 << 20,
            session_timeout_ms=self.session_timeout_ms,
            heartbeat_interval_ms=200,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            assignors=self.assignors,
            rack=rack,
            group_id=f"group of {self.run_id}",
            load_window_ms=self.load_window_ms,
        )

    def start(self, name: str, rack: str = "") -> tuple[Executor, psutil.Process]:
        """An executor with its agent in the group."""
        executor = self.executor(name)
        return executor, self.start_on(executor, rack=rack)

    def start_on(
        self, executor: Executor, after: psutil.Process | None = None, rack: str = "", agent: str = ""
    ) -> psutil.Process:
        """Start an agent on this executor, where the one of before, if any, is dead; it is in the group.

        ``agent`` is the name of one that other runs have members in, too.
        """
        config = replace(self.config(executor, rack), listener=self.listener)
        name = agent or config.address
        wait_until(lambda: start_member(name, config, self.paths), 60, "an agent to be allowed")
        info = wait_until(
            lambda: self.member(executor, after), 60, f"the agent of executor {executor.executor_id} to join"
        )
        self.agents.add(info.pid)
        return psutil.Process(info.pid)

    def member(self, executor: Executor, after: psutil.Process | None = None) -> MemberInfo | None:
        """The member on this executor, that of a process other than ``after``."""
        address, old = executor.address(self.run_id), after.pid if after else 0
        found = (info for info in self.coordinator.members().values() if info.address == address and info.pid != old)
        return next(found, None)

    def remove(self, executor: Executor) -> None:
        """Take the member of this executor out, as an operator does."""
        member = self.member(executor)
        assert member is not None
        leaving = LeavingMember(member.member_id, executor.instance_id(), "removed by a test")
        self.coordinator.request(LeaveGroup((leaving,)), 5)

    def owned(self, member_id: str) -> dict[TopicPartition, int]:
        """What a member owns, with assignment generations."""
        return dict(groups.owned(self.coordinator.group, member_id))

    def owned_on(self, executor: Executor) -> list[TopicPartition]:
        """What this executor's member owns, sorted."""
        member = self.member(executor)
        return sorted(self.owned(member.member_id)) if member else []

    def loads(self) -> list[int]:
        """How many partitions each owner has."""
        return list(Counter(self.coordinator.owners().values()).values())

    def settled(self) -> Callable[[], bool]:
        """Whether every partition has an owner, and every member has its assignment."""
        return lambda: len(self.coordinator.owners()) == PARTITIONS and not self.coordinator.group.unsynced

    def close(self) -> None:
        """Kill what is left."""
        self.coordinator.stop()
        self.server.stop(2)
        if self.relay:
            self.relay.close()
        for process in self.executors:
            process.kill()
            process.wait()
        for pid in self.agents:
            if psutil.pid_exists(pid) and not gone(psutil.Process(pid)):
                os.kill(pid, signal.SIGKILL)


def start_member(name: str, config: AgentConfig, paths: Sequence[str] = ()) -> bool:
    """Ask the agent of this name for a member, as a task does; whether the request was left."""
    return start_agent(name, config.address, config.executor, encode_config(config), paths)


def gone(process: psutil.Process) -> bool:
    """Whether a process has ended (its parent here may not have reaped it yet)."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def sockets(executor: Executor, run_id: str = "run") -> list[str]:
    """Abstract sockets of a run's member on this executor; the system closes them after the process's first thread is gone."""
    address = executor.address(run_id)
    return [line for line in Path("/proc/net/unix").read_text().splitlines() if address in line]


def pulled(
    world: World, executor: Executor, wanted: Range, plan_seq: int = 2
) -> list[tuple[int, pa.RecordBatch | None]]:
    """What the agent hands over of a range, nothing where it hasn't got it."""
    client = TaskClient(executor.address(world.run_id), world.authority.client.token, 10)
    try:
        return list(one_by(client.read, wanted, wanted.start, plan_seq))
    except Missed:
        return []
    finally:
        client.close()
