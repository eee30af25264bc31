"""What a Spark task does: see that the agent lives, claim a slot, pull its ranges, report.

The ranges are fixed by the plan.  From whom a range is read (the executor's agent, or Kafka directly) is a
matter of speed: whenever the agent doesn't have it or doesn't answer, the task goes on by itself from the next
offset that it has not yielded yet.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import pyarrow as pa
from msgspec import structs
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from sparkcohort.assignors.load_balanced import LoadBalancedAssignor
from sparkcohort.runtime.errors import CohortError, named
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.agent_config import AgentConfig, to_json
from sparkcohort.runtime.shell.agent.buffers import WHOLE_BYTES, WHOLE_ROWS
from sparkcohort.runtime.shell.agent.task_client import AgentTimeout, TaskClient
from sparkcohort.runtime.shell.agent.task_frames import SILENT
from sparkcohort.runtime.shell.kafka.consumer.range_reader import RangeReader
from sparkcohort.runtime.shell.kafka.consumer.relay import CALL_S as READ_TIMEOUT_S
from sparkcohort.runtime.shell.kafka.consumer.relay import Through
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.process.executor import Executor, NoExecutor, agent_answers, find_executor, start_agent
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.flight import CoordinatorUnreachable, Link
from sparkcohort.runtime.text import printable
from sparkcohort.streaming.batch_bytes import bytes_by_partition
from sparkcohort.streaming.pyfiles import pyfile_paths

log = logging.getLogger("sparkcohort.task")

CALL_TIMEOUT_S = 10.0
CALL_ATTEMPTS = 3
DOOMED = 3
"""An agent that was started so often, and never answered, is told of."""
MOST_BETWEEN_S = 60.0
"""Starts of an agent that ends each time come 1 s, 2 s, 4 s and so on apart, and so long at most: each costs a second of CPU."""

_starts: dict[str, tuple[int, float]] = {}
"""By address: how often this worker has started the agent since one answered, and when it may the next time."""


@dataclass(frozen=True)
class SlotPartition(InputPartition):
    """One input partition: the right to claim one slot of a plan.

    ``avoid`` are the addresses of agents that have lately left a task without an answer.
    """

    run: Run
    plan_id: str
    index: int
    avoid: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"SlotPartition(plan={self.plan_id}, index={self.index})"


@dataclass(slots=True)
class _Tally:
    """Records and bytes by path, for the audit; bytes by partition, for the plans to come."""

    agent: list[int] = field(default_factory=lambda: [0, 0])
    direct: list[int] = field(default_factory=lambda: [0, 0])
    timed_out: bool = False
    anew: set[str] = field(default_factory=set)  # topics made anew under the plan
    sizes: dict[TopicPartition, int] = field(default_factory=dict)

    def count(self, path: list[int], batch: pa.RecordBatch, among: Sequence[TopicPartition]) -> None:
        """Count a batch that came by this path, of these partitions."""
        path[0] += batch.num_rows
        path[1] += (nbytes := batch.nbytes)
        for tp, size in bytes_by_partition(batch, nbytes, among).items():
            self.sizes[tp] = self.sizes.get(tp, 0) + size


def read_slot(options: SourceOptions, partition: SlotPartition) -> Iterator[pa.RecordBatch]:
    """The rows of one slot as Arrow batches.

    Raises CohortError when the coordinator refuses the claim (FENCED_INSTANCE_ID, a plan of long ago) or cannot be reached.
    """
    slot_client = _SlotClient(options.on_executor(os.environ), partition)
    try:
        claimed = slot_client.claim()
        ranges = list(claimed.ranges)
        tally = _Tally()
        left = ranges
        if claimed.agent and ranges:
            left = yield from slot_client.from_agent(claimed, ranges, tally)
        if left:
            through = slot_client.through([ranges[at].tp for at in claimed.barred])
            yield from _directly(slot_client.options, left, claimed.ids, tally, through)
        if ranges:
            slot_client.report(ranges, tally)
    finally:
        slot_client.close()
        _keep_imports()


class _SlotClient:
    """Whom a task asks: the agent of its executor, which also has the coordinator's ear, or else the coordinator itself."""

    def __init__(self, options: SourceOptions, partition: SlotPartition) -> None:
        """Nobody is asked yet."""
        self.options, self._partition, self._run = options, partition, partition.run
        self._executor, self._alone = _executor()
        self._address = self._executor.address(self._run.run_id) if self._executor else ""
        self._agent = TaskClient(self._address, self._run.credentials.token, options.agent_timeout_ms / 1000)
        self._relays = bool(self._address) and self._address not in partition.avoid
        self._link: Link | None = None
        self._silent: set[TopicPartition] = set()  # their leaders don't answer the agent either

    def claim(self) -> calls.ClaimReply:
        """The slot: its ranges, where the plan begins to read their partitions, and whether this agent has them."""
        claim = calls.Claim(self._partition.plan_id, self._partition.index, self._address)
        if self._relays:
            try:
                claimed = _accepted(self._agent.claim(claim))
            except AgentTimeout:
                self._relays = False
            else:
                _starts.pop(self._address, None)
                return claimed
        if self._executor:
            self._alone = _ensure_agent(self.options, self._run, self._host(), self._executor, self._address)
        if self._alone:
            why, host = printable(self._alone, calls.MAX_WORDS), printable(socket.gethostname(), calls.MAX_WORDS)
            claim = structs.replace(claim, alone=why, host=host)
        return _accepted(calls.decode(self._call(claim), calls.ClaimReply))

    def from_agent(
        self, claimed: calls.ClaimReply, ranges: list[Range], tally: _Tally
    ) -> Generator[pa.RecordBatch, None, list[Range]]:
        """Yield what the agent has; returns what is left to be read directly."""
        stands = [item.start for item in ranges]
        try:
            for step in self._agent.read(ranges, claimed.planned_starts, claimed.sequence, claimed.ids):
                if step.batch is not None and step.batch.num_rows:
                    tally.count(tally.agent, step.batch, [ranges[index].tp for index, _ in step.positions])
                    yield step.batch
                for index, at in step.positions:
                    stands[index] = at
                self._silent |= {ranges[index].tp for index, why in step.missed if why.startswith(SILENT)}
        except AgentTimeout:
            tally.timed_out = True
            self._relays = False
        return [item._replace(start=at) for item, at in zip(ranges, stands, strict=True) if at < item.end]

    def through(self, barred: Iterable[TopicPartition]) -> Through:
        """The driver, to read what this executor can't: what it is ``barred`` from at once."""
        return Through(lambda body: self._answer("Read", body, READ_TIMEOUT_S), {*barred, *self._silent})

    def report(self, ranges: list[Range], tally: _Tally) -> None:
        """Say what was delivered.  The agent is not waited for: it says so while Spark ends the task."""
        report = calls.Delivered(
            plan=self._partition.plan_id,
            address=self._address,
            ranges=tuple(ranges),
            agent=(tally.agent[0], tally.agent[1]),
            direct=(tally.direct[0], tally.direct[1]),
            sizes=tuple(tally.sizes.get(item.tp, 0) for item in ranges),  # a slot has one range of a partition at most
            timed_out=tally.timed_out,
            anew=tuple(sorted(tally.anew)),
        )
        try:
            if self._relays:
                self._agent.tell(report)
            else:
                self._call(report)
        except (CohortError, AgentTimeout) as error:  # an audit: the rows are delivered, whoever counts them
            log.warning("could not report what was delivered: %s", error)

    def close(self) -> None:
        """End the connections."""
        self._agent.close()
        if self._link is not None:
            self._link.close()

    def _host(self) -> str:
        return self._run.host or _driver_host()

    def _call(self, call: calls.Call) -> bytes:
        return self._answer(type(call).__name__, calls.encode(call), CALL_TIMEOUT_S)

    def _answer(self, action: str, body: bytes, timeout_s: float) -> bytes:
        """One call over a connection of our own, tried again while nobody answers: whatever is asked is idempotent."""
        for attempt in range(CALL_ATTEMPTS):
            try:
                self._link = self._link or Link(self._host(), self._run.port, self._run.credentials)
                return self._link.call(action, body, timeout_s)
            except CoordinatorUnreachable as error:
                if attempt == CALL_ATTEMPTS - 1:
                    raise CohortError(
                        f"{error}; if executors reach the driver under another name or through another port, "
                        "set the options coordinator.host and coordinator.port"
                    ) from error
        raise AssertionError("unreachable")


def _accepted(reply: calls.ClaimReply) -> calls.ClaimReply:
    """The reply, unless it is a refusal."""
    if reply.error:
        raise CohortError(named(reply.error, reply.message), reply.error)
    return reply


@cache
def _executor() -> tuple[Executor | None, str]:
    """The executor of this worker, for life (a worker doesn't outlive its executor), or why there is none."""
    try:
        return find_executor(), ""
    except NoExecutor as error:
        return None, str(error)


@cache
def _keep_imports() -> None:
    """Take what is imported out of the garbage collector's sight, once per process.

    PySpark collects garbage after every task of a worker that it keeps (``daemon.py``): with Arrow, Flight and the Kafka
    client imported that was half of the worker's CPU time, and nothing was ever found among them.
    """
    gc.freeze()


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, small batches joined; large ones pass as they are, without a copy.

    Each batch costs PySpark and the JVM alike, whatever is in it.
    """
    held: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        small = batch.num_rows < WHOLE_ROWS and batch.nbytes < WHOLE_BYTES
        if small:
            held.append(batch)
            rows, nbytes = rows + batch.num_rows, nbytes + batch.nbytes
        if held and (not small or rows >= WHOLE_ROWS or nbytes >= WHOLE_BYTES):
            yield _joined(held)
            held, rows, nbytes = [], 0, 0
        if not small:
            yield batch
    if held:
        yield _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _driver_host() -> str:
    context = TaskContext.get()
    host = context.getLocalProperty("spark.driver.host") if context else None
    return host or "127.0.0.1"


def _ensure_agent(options: SourceOptions, run: Run, host: str, executor: Executor, address: str) -> str:
    """Have this executor's agent take a member of this run in; the task doesn't wait for it.  Returns why it can't, or ""."""
    if agent_answers(address):
        return ""
    starts, since = _starts.get(address, (0, 0.0)), time.monotonic()
    why = "its agent ends whenever it is started: see the executor's stderr" if starts[0] >= DOOMED else ""
    if since < starts[1]:
        return why
    config = AgentConfig(
        address=address,
        executor=executor,
        host=host,
        port=run.port,
        credentials=run.credentials,
        kafka=options.kafka,
        include_headers=options.include_headers,
        buffer_bytes=options.buffer_bytes,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_interval_ms,
        rebalance_timeout_ms=options.rebalance_timeout_ms,
        assignors=run.assignors,
        rack=options.client_rack,
        listener=options.rebalance_listener,
        group_id=options.group_id,
        load_window_ms=options.load_balance_after_ms if LoadBalancedAssignor.name in run.assignors else 0,
    )
    # A listener is the user's code, and finds the user's modules: one query's are not to be another's.
    name, paths = (address, pyfile_paths()) if options.rebalance_listener else (executor.agent(), ())
    try:
        if start_agent(name, to_json(config), paths):
            _starts[address] = starts[0] + 1, since + min(2.0 ** starts[0], MOST_BETWEEN_S)
    except OSError as error:
        _starts[address] = starts[0] + 1, since + min(2.0 ** starts[0], MOST_BETWEEN_S)
        return f"its agent can't be started: {error}"
    return why


def _directly(
    options: SourceOptions, ranges: list[Range], ids: dict[str, str], tally: _Tally, through: Through
) -> Iterator[pa.RecordBatch]:
    reader = RangeReader(
        options.kafka,
        include_headers=options.include_headers,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout_ms=options.poll_timeout_ms,
        on_data_loss=log.warning,
        elsewhere=through,
    )
    try:
        for tp, _, batch in reader.read(ranges, ids):
            if batch is not None and batch.num_rows:
                tally.count(tally.direct, batch, [tp])
                yield batch
        tally.anew |= reader.replaced
    finally:
        reader.close()
