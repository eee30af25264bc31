"""The status of a run as one JSON-able value, for ``cohort describe``, the metrics and the page (``document`` has its schema).

``reports`` has the history: rebalances and members' timelines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sparkcohort.runtime import group as groups
from sparkcohort.runtime.batches.open_transactions import OpenTransaction
from sparkcohort.runtime.batches.snapshot import Snapshot
from sparkcohort.runtime.group.partition_ownership import assigned
from sparkcohort.runtime.group.state import Group
from sparkcohort.runtime.group.table import GroupState
from sparkcohort.runtime.group.validation import MemberInfo
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator import reports
from sparkcohort.runtime.shell.coordinator.coordinator import Coordinator
from sparkcohort.runtime.shell.coordinator.plan_registry import PlanRegistry
from sparkcohort.runtime.shell.driver.flow_meter import FlowMeter
from sparkcohort.runtime.shell.driver.problems import ProblemWatch


class LogView(NamedTuple):
    """The logs and the query's positions, as the driver knows them."""

    committed: Mapping[TopicPartition, int]  # of the Kafka group
    announced: Mapping[TopicPartition, int]  # the end of the batch in flight
    snapshot: Snapshot | None
    starts: Mapping[TopicPartition, int] = {}
    ages_ms: Mapping[TopicPartition, int] = {}  # of the first record that is not committed; 0 where there is none
    transactions: Mapping[TopicPartition, OpenTransaction] = {}  # that hold a partition up


class DriverFigures(NamedTuple):
    """The driver's figures besides the group, in plain values."""

    commits: Mapping[str, Any]  # see ``GroupCommits.totals``
    foreign_members: Mapping[str, int] = {"found": 0, "present": 0}  # in the real group
    fenced: bool = False  # a newer driver has taken the real group over
    take_overs: Mapping[str, int] = {"handover": 0, "fencing": 0}  # drivers that gave way to this one
    processes: Mapping[str, Mapping[str, float]] = {}  # memory, CPU, descriptors of the query's processes, by name
    query: Mapping[str, Any] | None = None  # from a listener's reports
    throttled: Mapping[str, float | None] = {}  # by executor, seconds
    writes: Mapping[str, Any] | None = None  # see ``document.Writes``


def build(
    coordinator: Coordinator,
    plans: PlanRegistry,
    logs: LogView,
    *,
    instance_id: str,
    driver: DriverFigures,
    late: Mapping[TopicPartition, str] | None = None,
    cut_off: Sequence[Mapping[str, Any]] = (),
    reasons: Collection[str] = (),
) -> dict[str, Any]:
    """The whole status in plain values.

    ``late`` has the reasons of late partitions.  ``cut_off`` has a row for each partition that a member can't fetch, with the
    reason.  ``reasons`` are those for which a record of this query may be bad.
    """
    group, audit, leadership = coordinator.group, plans.audit, coordinator.leadership
    return {
        "group": coordinator.settings.group_id,
        "instance_id": instance_id,
        "run_id": coordinator.settings.run_id,
        "state": group.state.value,
        "generation": group.generation,
        "protocol": group.protocol_name if group.state is GroupState.STABLE else "",
        "state_age_ms": coordinator.now_ms - coordinator.history.state_since_ms,
        "rebalance": _under_way(coordinator, group),
        "members": _members(coordinator, group),
        "partitions": _partitions(coordinator, logs, late or {}),
        "cut_off": [dict(row) for row in cut_off],
        "scheduled_rebalance": _scheduled(coordinator),
        "rebalances": reports.history(coordinator.history.entries()),
        "rebalance_totals": coordinator.history.rebalance_totals.as_value(),
        "malformed": plans.malformed.as_value({tp.topic for tp in logs.announced}, reasons),
        "refused": [
            {"request": request, "error": error, "count": count}
            for (request, error), count in sorted(coordinator.counters.items())
        ],
        "assignors": list(coordinator.settings.assignors),
        "failed_rebalances": dict(leadership.runner.failures),
        "assignor_failure": leadership.runner.failure(),
        "partitions_moved": coordinator.history.rebalance_totals.partitions_moved,
        "batches": plans.batches(),
        "agent_starts": dict(coordinator.history.agent_starts),
        **driver._asdict(),
        "audit": {name: getattr(audit, name) for name in audit.__slots__},
    }


def with_problems(status: dict[str, Any], flow: FlowMeter, problems: ProblemWatch, now: float) -> dict[str, Any]:
    """The status with what needs its past: how records flow, and since when something is wrong; ``now`` since 1970."""
    status |= {"now": now, "flow": flow.measured(status, now)}
    return {**status, "problems": problems.rows(status, now)}


def _members(coordinator: Coordinator, group: Group) -> list[dict[str, Any]]:
    infos = coordinator.members()
    owned = {member_id: groups.owned(group, member_id) for member_id in infos}
    balancing = coordinator.leadership.balancing
    loads = balancing.loads_by_member(owned) if balancing else {}
    # The driver's own member has no info: it subscribes to nothing and is not shown.
    rows = [
        _member(group, info, coordinator.now_ms, loads.get(member_id))
        for member_id, info in infos.items()
        if member_id in group.members
    ]
    return sorted(rows, key=lambda row: (str(row["executor"]), str(row["member_id"])))


def _member(group: Group, info: MemberInfo, now_ms: int, load: Mapping[str, Any] | None) -> dict[str, Any]:
    """One member; ``generations`` has the assignment generation of each partition of ``owned``, in that order.

    ``load`` is None without the load-balanced assignor, or before the first report.
    """
    member = group.members[info.member_id]
    owned = sorted(groups.owned(group, info.member_id).items())
    # A member without a session waits in a join or a sync.
    deadline_ms = group.sessions.get(info.member_id, now_ms + member.session_timeout_ms)
    return {
        "member_id": info.member_id,
        "instance_id": member.group_instance_id,
        "state": _standing(group, info.member_id),
        "client_id": member.client_id,
        "executor": info.executor_id,
        "host": info.host,
        "rack": info.rack,
        "cores": info.cores,
        "pid": info.pid,
        "owned": [list(tp) for tp, _ in owned],
        "generations": [generation for _, generation in owned],
        "target": [list(tp) for tp in sorted(assigned(group, info.member_id))],
        "heartbeat_age_ms": max(now_ms - (deadline_ms - member.session_timeout_ms), 0),
        "load": load,
    }


def _standing(group: Group, member_id: str) -> str:
    """The state of a member in a rebalance: to-rejoin, joined, to-sync, synced or settled."""
    if group.state is GroupState.PREPARING_REBALANCE:
        return "joined" if member_id in group.joins else "to-rejoin"
    if group.state is GroupState.COMPLETING_REBALANCE:
        return "synced" if member_id in group.syncs else "to-sync"
    return "to-sync" if member_id in group.unsynced else "settled"


def _under_way(coordinator: Coordinator, group: Group) -> dict[str, Any] | None:
    """The running rebalance: its reason, its age, and the members that it waits for; None when there is none."""
    phase = group.rebalance
    if phase is None or group.state not in (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE):
        return None
    joining = group.state is GroupState.PREPARING_REBALANCE
    names = coordinator.history.names()
    done = group.joins if joining else group.syncs
    late = [member_id for member_id in group.members if member_id not in done]
    deadline_ms = phase.deadline_ms if joining else group.sync_deadline_ms
    return {
        "reason": reports.readable(str(phase.reason), names),
        "age_ms": coordinator.now_ms - phase.started_ms,
        "waits_for": "join" if joining else "sync",
        "deadline_in_ms": None if deadline_ms is None else max(deadline_ms - coordinator.now_ms, 0),
        "assignor": coordinator.leadership.runner.running(),
        "missing": [{"member_id": late_id, "client_id": reports.client_id(late_id, names)} for late_id in late],
    }


def _partitions(coordinator: Coordinator, logs: LogView, late: Mapping[TopicPartition, str]) -> list[dict[str, Any]]:
    committed, announced, snapshot, starts, ages_ms, transactions = logs
    owners, infos = coordinator.owners(), coordinator.members()
    ends = snapshot.ends if snapshot else {}
    rows = []
    partitions = snapshot.partitions if snapshot else frozenset()
    racks = coordinator.leadership.racks()
    for tp in sorted({*committed, *announced, *partitions}):
        offset, end = committed.get(tp), ends.get(tp)
        owner = infos.get(owners.get(tp, ""))
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "current_offset": offset,
                "log_end_offset": end,
                "lag": max(end - offset, 0) if offset is not None and end is not None else None,
                "log_start_offset": starts.get(tp),
                "lead": offset - starts[tp] if offset is not None and tp in starts else None,
                "lag_seconds": ages_ms[tp] / 1000 if tp in ages_ms else None,
                "member_id": owner.member_id if owner else None,
                "executor": owner.executor_id if owner else None,
                "host": owner.host if owner else None,
                "unreachable": snapshot.unreachable.get(tp) if snapshot else None,
                "late": late.get(tp),
                "open_transaction": transactions[tp]._asdict() if tp in transactions else None,
                "racks": sorted(racks[tp.topic][tp.partition]) if tp.partition < len(racks.get(tp.topic, ())) else [],
            }
        )
    return rows


def _scheduled(coordinator: Coordinator) -> dict[str, Any] | None:
    """The partitions that wait for the replacement of departed members, and the end of the wait; None: no wait.

    Without partitions it is the back-off of revoking rounds: moves between live members are delayed after a round with moves.
    """
    wait = coordinator.leadership.scheduled()
    return wait and {"partitions": [list(tp) for tp in sorted(wait[0])], "due_in_ms": wait[1]}
