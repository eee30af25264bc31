"""One run: processes, coordinator, network, time, and the log from which a run is told and compared."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import member_state as ms
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition
from tests.kit.group_world import member_config
from tests.simulator.coordinator import Coordinator
from tests.simulator.laws import Laws, refusals
from tests.simulator.network import Network
from tests.simulator.process import Process
from tests.simulator.schedule import Schedule
from tests.simulator.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable


class World:
    """Everything of one run; ``events`` counts the steps of the production machines and the faults."""

    def __init__(self, random: Random, topics: dict[str, int], config: g.GroupConfig) -> None:
        self.random, self.topics = random, topics
        self.max_delay_ms = 0  # for which the driver waits for somebody in place of a member that departed
        self.assignor_fails = False  # the driver's
        self.schedule = Schedule()
        self.network = Network(self.schedule, self.random)
        self.processes: list[Process] = []
        self.counts: Counter[str] = Counter()
        self.events = 0
        self.calls = 0
        self.log: list[tuple[int, str, object]] = []
        self.calm = False  # the faults have ended, and being slow is one
        self._frozen_ends_ms: int | None = None
        self.coordinator = Coordinator(self, config)
        self.laws = Laws(self)

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.schedule.now_ms

    # --- processes ----------------------------------------------------------------------------------

    def start(
        self, name: str, topics: tuple[str, ...], assignors: tuple[str, ...], instance: str | None = None
    ) -> Process:
        """Start a member's process; its instance id is its name, unless it is given."""
        process = Process(self, name, member_config(name, topics, instance, assignors))
        self.processes.append(process)
        self.schedule.after(0, process.reach, process.step, ms.Start())
        return process

    def start_driver(self) -> None:
        """Start the driver, within the coordinator's process."""
        process = Process(self, "driver", member_config("driver", (), "driver"), local=True)
        self.processes.append(process)
        self.schedule.after(0, process.reach, process.step, ms.Start())

    def forget(self, process: Process) -> None:
        """A process is gone."""
        process.end()
        self.network.cut.pop(process, None)
        self.processes.remove(process)

    def coordinator_down(self) -> None:
        """The coordinator's process is gone, and its driver with it; the next run comes soon."""
        for process in [x for x in self.processes if x.local]:
            self.forget(process)
        self.schedule.after(self.random.randint(50, 3_000), self._coordinator_up)

    def _coordinator_up(self) -> None:
        self.coordinator.resume()
        self.start_driver()

    # --- records and time -----------------------------------------------------------------------------

    def log_end(self, _tp: TopicPartition) -> int:
        """Where a partition's records end: they come all the time, until the faults end."""
        return 1 + (self.now_ms if self._frozen_ends_ms is None else self._frozen_ends_ms) // 10

    def end_logs(self) -> None:
        """No records come any more."""
        self._frozen_ends_ms = self.now_ms

    def takes_ms(self, usually: int) -> int:
        """How long some work takes: now and then ten times as long, until the faults end."""
        ms, slow = self.random.randint(1, usually), self.random.random() < 0.1
        return ms * 10 if slow and not self.calm else ms

    # --- what is told of every step ---------------------------------------------------------------------

    def say(self, what: str, about: object = "") -> None:
        """Add to the log; values are put into words when somebody reads it."""
        self.log.append((self.schedule.now_ms, what, about))

    def count(self, what: str) -> None:
        """Count what the summary tells."""
        self.counts[what] += 1

    def member_stepped(self, process: Process, before: ms.Member, event: ms.MemberEvent) -> None:
        """A member made a step."""
        self.events += 1
        self.log.append((self.schedule.now_ms, process.name, event))
        self.laws.member_stepped(process, before)

    def group_stepped(self, before: g.Group, event: p.Event, decision: g.Decision) -> None:
        """The coordinator made a step."""
        self.events += 1
        self.log.append((self.schedule.now_ms, "group", event))
        after = decision.group
        if after.generation != before.generation or after.state is not before.state:
            self.log.append((self.schedule.now_ms, f"group is {after.state}", after.generation))
        self.laws.group_stepped(before, event, decision)
        for action in decision.actions:
            if type(action) is p.Rebalanced:
                self.counts["rebalances"] += 1
            elif type(action) is p.Removed:
                self.counts["members removed"] += 1

    def kept(self, records: Iterable[r.GroupRecord]) -> None:
        """A part of a step's records was kept before the coordinator went down."""
        self.laws.kept(records)

    def answered(self, process: Process, reply: p.Reply) -> None:
        """A request is answered."""
        self.log.append((self.schedule.now_ms, f"answer to {process.name}", reply))
        if type(reply) is p.OffsetCommitReply:
            refused = refusals(reply)
            self.counts["commits refused"] += refused
            self.counts["commits accepted"] += len(reply.partitions) - refused
        elif type(reply) is p.JoinGroupReply and reply.error is ErrorCode.FENCED_INSTANCE_ID:
            self.counts["static members fenced"] += 1

    def resumed(self, before: g.Group) -> None:
        """A journal was replayed."""
        self.count("coordinator runs resumed")
        self.laws.resumed(before)

    # --- the log --------------------------------------------------------------------------------------

    def lines(self, last: int | None = None) -> list[str]:
        """The log in words, or the last of it."""
        chosen = self.log if last is None else self.log[-last:]
        return [f"{at_ms:>7} ms  {what}: {words(about)}" for at_ms, what, about in chosen]

    def digest(self) -> str:
        """A fingerprint of all that happened, equal for equal runs (I13)."""
        fingerprint = blake2b(digest_size=16)
        for at_ms, what, about in self.log:
            fingerprint.update(f"{at_ms} {what} {about!r}\n".encode())
        return fingerprint.hexdigest()
