"""The handlers of the coordinator's port: the group's requests, tasks' claims and reports, and the status."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, get_args

from msgspec.structs import replace

from sparkcohort.assignors import Load
from sparkcohort.runtime.batches.claims import UnknownSlot
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.group.validation import MemberInfo
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import JoinGroup, LeaveGroup, OffsetFetch, OffsetFetchReply, Request
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator import reports
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.leadership import DRIVER
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry, UnknownPlan
from sparkcohort.runtime.shell.coordinator.reachability_watch import ReachabilityWatch
from sparkcohort.runtime.shell.coordinator.record_ages_watch import RecordAgesWatch
from sparkcohort.runtime.shell.coordinator.slow_partition_watch import SlowPartitionWatch
from sparkcohort.runtime.shell.rpc.clock import now_ms
from sparkcohort.runtime.shell.rpc.flight import EventQueue, Handler
from sparkcohort.runtime.text import printable

log = logging.getLogger("sparkcohort.service")

PARKED_MARGIN_S = 10.0
MOST_PARKED_MS = 3_600_000
"""However long a joiner lets the others take to rejoin, its own request does not hold a thread for longer."""
SILENT_MS = 30_000
"""For so long no task asks an agent that left one without an answer: a task that waits in vain waits for agent.timeout.ms."""
MOST_SILENT: Final = 10_000
"""Agents that are not asked; as many as a group has members at most."""
MOST_REASONS = 20
"""Different reasons without an agent, from tasks, that are logged."""
_DONE = calls.encode(calls.Done())


class Silence(NamedTuple):
    """An agent has left a task without an answer: no task asks it for a while, unless another member has its address by then."""

    member: str  # that had the address, "" if the group had removed it before
    until_ms: int


class Service:
    """The handlers of one run; each is called from Flight's threads."""

    def __init__(
        self,
        coordinator: Coordinator,
        plans: PlanRegistry,
        *,
        failure: Callable[[], CohortError | None],
        status: Callable[[], dict[str, Any]],
        abilities: ReachabilityWatch | None = None,
        relay: Callable[[bytes], bytes] | None = None,
        on_recreated: Callable[[], None] = lambda: None,
        on_query: Callable[[str], None] = lambda _: None,
        on_batch: Callable[[calls.BatchCommitted], str] = lambda _: "",
    ) -> None:
        """``relay`` reads ranges for tasks that can't; without it such a request is refused.

        ``on_recreated`` is called when a task has found a recreated topic.  ``on_query`` gets the query's id from tasks; ``on_batch`` gets a batch in Spark's commit log from a listener, and returns the id of the served query, "" if unknown.
        """
        self._coordinator = coordinator
        self._plans = plans
        self._failure = failure
        self._status = status
        self.isolation, self.ages = SlowPartitionWatch(), RecordAgesWatch()
        self._on_recreated = on_recreated
        self._on_query, self._on_batch = on_query, on_batch
        self._abilities = abilities
        self._relay = relay
        self._silences: dict[str, Silence] = {}  # by the agent's address
        self._suspecting = threading.Lock()
        self._no_agent_reasons: set[str] = set()
        self._agents: Mapping[str, calls.AgentFigures] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by action name."""
        return {
            **{kind.__name__: partial(self._group, kind) for kind in get_args(Request)},
            "Status": lambda _body: _json(self._status()),
            "Rebalances": self._rebalances,
            "Story": self._member_timeline,
            "Delivered": self._delivered,
            "PartitionLoads": self._loads,
            "MalformedRecords": self._malformed,
            "RecordTimestamps": self._record_timestamps,
            "AgentFigures": self._figures,
            "Claim": self._claim,
            "Fetched": self._fetched,
            "Read": self._read,
            "BatchCommitted": self._batch_committed,
        }

    def silent(self) -> frozenset[str]:
        """The addresses of agents that are not to be asked now."""
        return frozenset(address for address in tuple(self._silences) if self._is_silent(address))

    def subscribe(self, body: bytes) -> EventQueue:
        """The event stream of the agent whose address is in ``body``."""
        return self._coordinator.subscribe(body.decode(errors="replace"))

    def unsubscribe(self, events: EventQueue) -> None:
        """End of an event stream."""
        self._coordinator.unsubscribe(events)

    def _group(self, kind: type[Request], body: bytes) -> bytes:
        request = calls.decode(body, kind)
        speakers = request.members if isinstance(request, LeaveGroup) else (request,)
        if any(getattr(speaker, "group_instance_id", None) == DRIVER for speaker in speakers):
            raise calls.CallError("only the driver may speak as its own member")
        reply = self._coordinator.request(request, self._timeout_s(request))
        if isinstance(request, OffsetFetch) and isinstance(reply, OffsetFetchReply):
            reply = self._with_planned_ends(request, reply)
        return calls.encode(reply)

    def _timeout_s(self, request: Request) -> float:
        wanted_ms = request.rebalance_timeout_ms if isinstance(request, JoinGroup) else 0
        timeout_ms = max(min(wanted_ms, MOST_PARKED_MS), self._coordinator.settings.rebalance_timeout_ms)
        return timeout_ms / 1000 + PARKED_MARGIN_S

    def _with_planned_ends(self, request: OffsetFetch, reply: OffsetFetchReply) -> OffsetFetchReply:
        """The offsets where prefetching has to start: the planned ends, which the committed positions may trail."""
        committed = dict(reply.offsets)
        offsets = []
        for tp in request.partitions or tuple(committed):
            planned = self._plans.planned_end(tp)
            offsets.append((tp, committed.get(tp, -1) if planned is None else planned))
        return OffsetFetchReply(reply.error, tuple(offsets), reply.message)

    def _claim(self, body: bytes) -> bytes:
        claim = calls.decode(body, calls.Claim)
        failure = self._failure()
        if failure is not None:
            return calls.encode(calls.ClaimReply(error=failure.error or "GROUP_FAILED", message=str(failure)))
        member = self._member_at(claim.address)
        self._note_missing_agent(claim)
        name = member.member_id if member else None
        unreadable = self._abilities.barred().get(name, {}) if self._abilities and name else {}
        try:
            slot, reply = self._plans.claim(claim.plan, claim.index, name, claim.batch, unreadable)
        except (UnknownPlan, UnknownSlot) as error:
            return calls.encode(calls.ClaimReply(error="PLAN_GONE", message=str(error)))
        # After a fail-over a task of the previous run finds this one at the same port with the same token, maybe of another query.
        self._on_query(claim.query)
        own = member is not None and slot.member == member.member_id and not self._is_silent(claim.address)
        return calls.encode(replace(reply, agent=own))

    def _note_missing_agent(self, claim: calls.Claim) -> None:
        """Log a task's reason why its executor can have no agent, once for each reason."""
        reason, host = printable(claim.no_agent_reason, calls.MAX_WORDS), printable(claim.host, calls.MAX_WORDS)
        if reason and reason not in self._no_agent_reasons and len(self._no_agent_reasons) < MOST_REASONS:
            self._no_agent_reasons.add(reason)
            log.warning(
                "group %s: there is no member agent on host %s: %s. Tasks on such hosts read from Kafka by themselves: each makes "
                "connections of its own, nothing is fetched ahead, and the executor owns no partitions",
                self._coordinator.settings.group_id,
                host,
                reason,
            )

    def _member_at(self, address: str) -> MemberInfo | None:
        matches = [info for info in self._coordinator.members().values() if address and info.address == address]
        return matches[-1] if matches else None

    def _is_silent(self, address: str) -> bool:
        silence = self._silences.get(address)
        if silence is None or now_ms() >= silence.until_ms:
            return False
        # A frozen agent keeps its address, and tasks wait for it, when its member was removed long ago.
        member = self._member_at(address)
        return member is None or member.member_id == silence.member

    def _delivered(self, body: bytes) -> bytes:
        report = calls.decode(body, calls.Delivered)
        calls.check_delivered(report)
        self._plans.record_report(report)
        if report.recreated:
            self._on_recreated()
        if report.timed_out:
            self._note_silence(report.address)
        return _DONE

    def _note_silence(self, address: str) -> None:
        """Send no task to this agent for a while; the tasks that waited for it together are one case."""
        member = self._member_at(address)
        with self._suspecting:
            self._silences = {name: each for name, each in self._silences.items() if now_ms() < each.until_ms}
            if self._is_silent(address) or len(self._silences) >= MOST_SILENT:
                return
            self._silences[address] = Silence(member.member_id if member else "", now_ms() + SILENT_MS)
        log.warning(
            "the agent of %s left a task without an answer; its tasks read directly for %.0f s",
            f"{member.client_id} on {member.host}" if member else f"a removed member ({printable(address)})",
            SILENT_MS / 1000,
        )

    def _malformed(self, body: bytes) -> bytes:
        self._plans.malformed.add(calls.decode(body, calls.MalformedRecords).bad)
        return _DONE

    def _record_timestamps(self, body: bytes) -> bytes:
        self.ages.record_report(calls.decode(body, calls.RecordTimestamps), self._coordinator.owners())
        return _DONE

    def _figures(self, body: bytes) -> bytes:
        """Store the figures of a member's process; those of former members are dropped."""
        report = calls.decode(body, calls.AgentFigures)
        present = self._coordinator.members().keys()
        figures_by_member = {**self._agents, report.member: report}
        self._agents = {member: figures for member, figures in figures_by_member.items() if member in present}
        return _DONE

    def agents(self) -> Mapping[str, calls.AgentFigures]:
        """The figures of members' processes, by member."""
        return self._agents

    def _loads(self, body: bytes) -> bytes:
        """Take a member's loads."""
        report = calls.decode(body, calls.PartitionLoads)
        loads = {
            TopicPartition(topic, row.partition): Load(row.records, row.bytes, row.backlog)
            for topic, rows in report.loads.items()
            for row in rows
        }
        if not self._coordinator.record_loads(report.member, loads):
            self._coordinator.counters["Loads", ErrorCode.UNKNOWN_MEMBER_ID.name] += 1
        return _DONE

    def _fetched(self, body: bytes) -> bytes:
        """Take a member's report of waits and silent leaders; returns the late partitions, and those to try."""
        owners, report = self._coordinator.owners(), calls.decode(body, calls.Fetched)
        late = tuple(self.isolation.record_report(report, owners))
        if self._abilities is None:
            return calls.encode(calls.FetchedReply(late))
        silent = {TopicPartition(row.topic, row.partition): row for row in report.silent}
        stuck = {tp: row for tp, row in silent.items() if owners.get(tp) == report.member}
        barred = self._abilities.record_report(report.member, stuck, report.reached)
        to_try = tuple(calls.Barred(*tp, self._plans.planned_end(tp) or 0) for tp in barred)
        return calls.encode(calls.FetchedReply(late, to_try))

    def _read(self, body: bytes) -> bytes:
        """Ranges for a task whose executor doesn't reach their leaders; that it got them shows that others do."""
        if self._relay is None:
            raise calls.CallError("nobody reads for others here")
        failure = self._failure()
        if failure is not None:
            raise failure
        return self._relay(body)

    def _batch_committed(self, body: bytes) -> bytes:
        return calls.encode(calls.BatchCommittedReply(self._on_batch(calls.decode(body, calls.BatchCommitted))))

    def _rebalances(self, body: bytes) -> bytes:
        """The last rebalances, or the one of a generation with its assignments."""
        request, history = calls.decode(body, calls.RebalancesRequest), self._coordinator.history
        if request.show is not None:
            return _json(reports.rebalance_details(history, request.show))
        if request.last is None:
            raise calls.CallError("neither how many rebalances nor which")
        return _json({"rebalances": reports.rebalances(history, max(request.last, 1))})

    def _member_timeline(self, body: bytes) -> bytes:
        return _json(reports.member_timeline(self._coordinator.history, calls.decode(body, calls.StoryRequest).member))


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()
