"""A Spark task: claim a slot, read its ranges, report, and start a missing agent.

The plan fixes the ranges.  The source of a range (the executor's agent, or Kafka directly) only changes the speed: when the
agent doesn't have a range or doesn't answer, the task reads on from the next offset that it has not yielded yet.

A new Python worker imports this before its first row.  So what only some tasks need (a connection to the driver, the Kafka
client, starting an agent) is imported later.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from msgspec import structs
from pyspark import TaskContext

from sparkcohort.runtime.errors import CohortError, named
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.task_client import AgentTimeout, TaskClient
from sparkcohort.runtime.shell.rpc.executor import Executor, NoExecutor, find_executor
from sparkcohort.runtime.shell.rpc.log_lines import log_to_stderr
from sparkcohort.runtime.text import printable
from sparkcohort.streaming.direct_read import keep_imports, new_direct_read, packed
from sparkcohort.streaming.session_zone import check_session, local_property

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.options.source_options import SourceOptions
    from sparkcohort.runtime.shell.rpc.flight import Link
    from sparkcohort.streaming.slot_reader import SlotPartition

log = logging.getLogger("sparkcohort.task")

CALL_TIMEOUT_S = 10.0
CALL_PAUSE_S = 0.5
REPORT_S = 5.0
"""The longest time of a task's report: it is an audit, for which no core should wait."""

_no_agent_reasons: dict[str, str] = {}
"""By address: why this executor can have no agent, from the last start; the next claim reports it to the driver."""


@dataclass(slots=True)
class _Tally:
    """Records and bytes by path, for the audit; bytes by partition, for the plans to come."""

    agent: list[int] = field(default_factory=lambda: [0, 0])
    direct: list[int] = field(default_factory=lambda: [0, 0])
    timed_out: bool = False
    sizes: dict[TopicPartition, int] = field(default_factory=dict)
    end: calls.DirectEnd = field(default_factory=calls.DirectEnd)

    def count(self, path: list[int], rows: int, sizes: Iterable[tuple[TopicPartition, int]]) -> None:
        """Count a batch that came by this path, so many bytes of each partition."""
        path[0] += rows
        for tp, size in sizes:
            path[1] += size
            self.sizes[tp] = self.sizes.get(tp, 0) + size


def read_slot(
    options: SourceOptions, partition: SlotPartition, *, is_agent_lost: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of one slot as Arrow batches, small ones joined; ``is_agent_lost``: the agent has not answered the claim.

    Raises CohortError when the coordinator refuses the claim (FENCED_INSTANCE_ID, a plan of long ago) or cannot be reached.
    """
    log_to_stderr(options.group_id)
    check_session(options)
    slot_client = _SlotClient(options.on_executor(os.environ), partition, is_agent_lost=is_agent_lost)
    try:
        claimed = slot_client.claim()
        tally = _Tally(timed_out=slot_client.is_agent_lost)
        yield from packed(_rows(slot_client, claimed, tally))
        if claimed.ranges or tally.timed_out:
            slot_client.report(list(claimed.ranges), tally)
    finally:
        slot_client.close()
        try:
            slot_client.ensure_agent()
        finally:
            keep_imports()


class _Begun(msgspec.Struct, frozen=True):
    """What the reader in the JVM writes of a slot that it leaves (``Messages.begun``): ``slot`` is the pickled partition."""

    slot: bytes
    claimed: calls.ClaimReply | None  # None: the agent gave no answer to the claim
    positions: tuple[int, ...]
    sizes: tuple[int, ...]
    agent: tuple[int, int]
    direct: tuple[int, int]
    timed_out: bool


_BEGUN: Final = msgspec.json.Decoder(_Begun)


def read_rest(options: SourceOptions, text: str) -> Iterator[pa.RecordBatch]:
    """The rows that a slot's agent did not give to the reader in the JVM, read from Kafka; reports all of the slot."""
    begun = _BEGUN.decode(text)
    log_to_stderr(options.group_id)
    slot = pickle.loads(begun.slot)  # noqa: S301  the driver's own, as Spark unpickles it
    if begun.claimed is None:
        yield from read_slot(options, slot, is_agent_lost=True)
        return
    slot_client = _SlotClient(options.on_executor(os.environ), slot, is_agent_lost=begun.timed_out)
    ranges = begun.claimed.ranges
    sizes = {item.tp: size for item, size in zip(ranges, begun.sizes, strict=True)}
    tally = _Tally(list(begun.agent), list(begun.direct), timed_out=begun.timed_out, sizes=sizes)
    remaining = _unread(ranges, begun.positions)
    try:
        yield from packed(slot_client.directly(remaining, begun.claimed.ids, tally))
        slot_client.report(list(ranges), tally)
    finally:
        slot_client.close()
        keep_imports()


def _unread(ranges: Iterable[Range], positions: Iterable[int]) -> list[Range]:
    """What remains of ranges that were read up to these offsets."""
    return [item._replace(start=offset) for item, offset in zip(ranges, positions, strict=True) if offset < item.end]


def _rows(slot_client: _SlotClient, claimed: calls.ClaimReply, tally: _Tally) -> Iterator[pa.RecordBatch]:
    """The rows of the ranges, from the agent as far as it has them, then from Kafka."""
    remaining = ranges = list(claimed.ranges)
    if claimed.agent and ranges:
        remaining = yield from slot_client.from_agent(claimed, ranges, tally)
    if remaining:
        yield from slot_client.directly(remaining, claimed.ids, tally)


class _SlotClient:
    """A task's connections: to the agent of its executor, which also passes calls on to the coordinator, or to the coordinator."""

    def __init__(self, options: SourceOptions, partition: SlotPartition, *, is_agent_lost: bool = False) -> None:
        """Connects with the first call; an agent that was lost, which left this task without an answer, is not asked."""
        self.is_agent_lost = is_agent_lost
        self.options, self._partition, self._run = options, partition, partition.run
        self._executor, self._no_agent_reason = _executor()
        self._address = self._executor.address(self._run.run_id) if self._executor else ""
        self._agent = TaskClient(self._address, self._run.credentials.token, options.agent_timeout_ms / 1000)
        self._claims_through_agent = self._reports_through_agent = (
            bool(self._address) and self._address not in partition.avoid and not is_agent_lost
        )
        self._link: Link | None = None
        self._agent_missing = False

    def claim(self) -> calls.ClaimReply:
        """The slot: its ranges, where the plan begins to read their partitions, and whether this agent has them."""
        claim = calls.Claim(
            self._partition.plan_id, self._partition.index, self._address, query=_query_id(), batch=_batch_number()
        )
        if self._claims_through_agent:
            try:
                if (claimed := self._agent.claim(claim)) is not None:
                    _no_agent_reasons.pop(self._address, None)
                    return _accepted(claimed)
                self._reports_through_agent = False  # the agent gets no answer, and has rows all the same
            except AgentTimeout as error:
                self.is_agent_lost = not isinstance(error.__cause__, ConnectionRefusedError)  # else there is none
                self._claims_through_agent = self._reports_through_agent = False
        self._agent_missing = self._executor is not None and not self._claims_through_agent
        if no_agent := self._no_agent_reason or _no_agent_reasons.get(self._address, ""):
            reason, host = printable(no_agent, calls.MAX_WORDS), printable(socket.gethostname(), calls.MAX_WORDS)
            claim = structs.replace(claim, no_agent_reason=reason, host=host)
        # The task needs an answer: the claim is repeated for a session timeout.
        wait_s = self.options.session_timeout_ms / 1000
        claimed = calls.decode(self._answer("Claim", calls.encode(claim), CALL_TIMEOUT_S, wait_s), calls.ClaimReply)
        self._agent_missing &= not (claimed.last or claimed.error)
        return _accepted(claimed)

    def ensure_agent(self) -> None:
        """Start the executor's agent if it did not answer the claim, unless the query ends with this batch."""
        if self._executor is None or not self._agent_missing:
            return
        from sparkcohort.streaming import agent_start  # noqa: PLC0415  once an executor, and behind the rows

        reason = agent_start.ensure_agent(self.options, self._run, self._host(), self._executor, self._address)
        _no_agent_reasons[self._address] = reason

    def from_agent(
        self, claimed: calls.ClaimReply, ranges: list[Range], tally: _Tally
    ) -> Generator[pa.RecordBatch, None, list[Range]]:
        """Yield the rows that the agent has; returns the ranges that remain for a direct read."""
        stands = [item.start for item in ranges]
        try:
            for step in self._agent.read(ranges, claimed.planned_starts, claimed.sequence, claimed.ids):
                if step.batch is not None and step.batch.num_rows:
                    partitions = (ranges[index].tp for index, _ in step.positions)
                    tally.count(tally.agent, step.batch.num_rows, zip(partitions, step.sizes, strict=True))
                    yield step.batch
                for index, offset in step.positions:
                    stands[index] = offset
        except AgentTimeout:
            tally.timed_out = True
            self._claims_through_agent = self._reports_through_agent = False
        return _unread(ranges, stands)

    def directly(self, ranges: list[Range], ids: dict[str, str], tally: _Tally) -> Iterator[pa.RecordBatch]:
        """Read ranges from Kafka; where this executor doesn't reach a leader, through the driver."""
        from sparkcohort.runtime.shell.kafka.fetch import relay  # noqa: PLC0415  with the Kafka client

        relayed = relay.RelayedReader(lambda body: self._answer("Read", body, relay.CALL_S))
        reading = new_direct_read(self.options, relayed)
        for tp, _, batch in reading.pieces(ranges, ids):
            if batch is not None and batch.num_rows:
                tally.count(tally.direct, batch.num_rows, [(tp, batch.nbytes)])
                yield batch
        tally.end = reading.end

    def report(self, ranges: list[Range], tally: _Tally) -> None:
        """Report the delivery.  The task doesn't wait for the agent, which passes the report on while Spark ends the task."""
        report = calls.Delivered(
            plan=self._partition.plan_id,
            address=self._address,
            ranges=tuple(ranges),
            agent=(tally.agent[0], tally.agent[1]),
            direct=(tally.direct[0], tally.direct[1]),
            sizes=tuple(tally.sizes.get(item.tp, 0) for item in ranges),  # a slot has one range of a partition at most
            timed_out=tally.timed_out,
            recreated=tally.end.recreated,
            bad=tally.end.bad,
        )
        try:
            if self._reports_through_agent:
                self._agent.tell(report)
            else:
                # One try: a slow coordinator may have counted the report already, and would count it again.
                self._answer("Delivered", calls.encode(report), REPORT_S)
        except (CohortError, AgentTimeout) as error:  # an audit only: the rows are delivered
            log.warning("could not report what was delivered: %s", error)

    def close(self) -> None:
        """End the connections."""
        self._agent.close()
        if self._link is not None:
            self._link.close()

    def _host(self) -> str:
        return self._run.host or _driver_host()

    def _answer(self, action: str, body: bytes, timeout_s: float, wait_s: float = 0.0) -> bytes:
        """One call over the task's own connection, repeated for ``wait_s`` without an answer; it must be idempotent.

        Raises CohortError after ``wait_s``, and at once where the connection is refused.
        """
        from sparkcohort.runtime.shell.rpc.flight import CoordinatorUnreachable, Link  # noqa: PLC0415  agents save us it

        deadline = time.monotonic() + wait_s
        while True:
            try:
                self._link = self._link or Link(self._host(), self._run.port, self._run.credentials)
                return self._link.call(action, body, timeout_s)
            except CoordinatorUnreachable as error:
                # Silence is a frozen driver or a cut network, and may end.  Each failed attempt brings the query nearer to
                # spark.task.maxFailures.  A refused connection means that the stream runner has ended, and with it the batch.
                if time.monotonic() >= deadline or self._link is None or self._link.is_refused():
                    raise CohortError(
                        f"{error}; if executors reach the driver under another name or through another port, "
                        "set the options coordinator.host and coordinator.port"
                    ) from error
                log.warning("%s; asked again for %.0f s (session.timeout.ms)", error, deadline - time.monotonic())
            time.sleep(CALL_PAUSE_S)


def _accepted(reply: calls.ClaimReply) -> calls.ClaimReply:
    """The reply, unless it is a refusal."""
    if reply.error:
        raise CohortError(named(reply.error, reply.message), reply.error)
    return reply


@cache
def _executor() -> tuple[Executor | None, str]:
    """The executor of this worker, for life (a worker doesn't outlive its executor), or why there is none."""
    try:
        executor = find_executor()
    except NoExecutor as error:
        return None, str(error)
    context = TaskContext.get()
    return executor.with_task_cpus(context.cpus()) if context else executor, ""


def _driver_host() -> str:
    return local_property("spark.driver.host") or "127.0.0.1"


def _batch_number() -> int:
    """Spark's number of the batch (``MicroBatchExecution.BATCH_ID_KEY``), -1 without one."""
    number = local_property("streaming.sql.batchId")
    return int(number) if number.isdecimal() else -1


def _query_id() -> str:
    """Spark's id of the query, a property of its tasks only (``StreamExecution.QUERY_ID_KEY``)."""
    return local_property("sql.streaming.queryId")
