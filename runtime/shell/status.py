"""The status of a run as one JSON-able value: what ``cohort describe``, the metrics and the demo's live view show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkcohort.runtime.protocol import DescribeGroup, DescribeGroupReply, Rebalanced, TopicPartition
from sparkcohort.runtime.shell.coordinator import Coordinator
from sparkcohort.runtime.shell.log_ends import Snapshot
from sparkcohort.runtime.shell.plans import Plans

DESCRIBE_TIMEOUT_S = 5.0


def build(
    coordinator: Coordinator,
    plans: Plans,
    *,
    instance_id: str,
    committed: Mapping[TopicPartition, int],
    announced: Mapping[TopicPartition, int],
    snapshot: Snapshot | None,
    commits: Mapping[str, int],
) -> dict[str, Any]:
    """Everything there is to see, in plain values.

    ``committed`` is what the real group has, ``announced`` the end of the batch in flight.
    """
    described = coordinator.request(DescribeGroup(), DESCRIBE_TIMEOUT_S)
    assert isinstance(described, DescribeGroupReply)  # noqa: S101  the reply of a describe
    audit = plans.audit
    return {
        "group": coordinator.settings.group_id,
        "instance_id": instance_id,
        "run_id": coordinator.settings.run_id,
        "state": described.state,
        "generation": described.generation,
        "protocol": described.protocol_name,
        "members": _members(coordinator, described),
        "partitions": _partitions(coordinator, committed, announced, snapshot),
        "scheduled_rebalance": _scheduled(coordinator),
        "rebalances": [_rebalance(done) for done in coordinator.rebalances],
        "rebalance_totals": coordinator.rebalance_totals.as_value(),
        "refused": [
            {"request": request, "error": error, "count": count}
            for (request, error), count in sorted(coordinator.counters.items())
        ],
        "failed_rebalances": dict(coordinator.failed_rebalances),
        "partitions_moved": coordinator.moved,
        "commits": dict(commits),
        "audit": {name: getattr(audit, name) for name in audit.__slots__},
    }


def _members(coordinator: Coordinator, described: DescribeGroupReply) -> list[dict[str, Any]]:
    infos = coordinator.members()
    rows = []
    for item in described.members:
        info = infos.get(item.member_id)
        if info is None:  # the driver's own member subscribes to nothing and is nobody's concern
            continue
        rows.append(
            {
                "member_id": item.member_id,
                "instance_id": item.group_instance_id,
                "executor": info.executor_id,
                "host": info.host,
                "cores": info.cores,
                "pid": info.pid,
                "owned": [list(tp) for tp, _ in sorted(item.owned)],
                "target": [list(tp) for tp in sorted(item.target)],
                "heartbeat_age_ms": item.heartbeat_age_ms,
            }
        )
    return sorted(rows, key=lambda row: (str(row["executor"]), str(row["member_id"])))


def _partitions(
    coordinator: Coordinator,
    committed: Mapping[TopicPartition, int],
    announced: Mapping[TopicPartition, int],
    snapshot: Snapshot | None,
) -> list[dict[str, Any]]:
    owners, infos = coordinator.owners(), coordinator.members()
    ends = snapshot.ends if snapshot else {}
    rows = []
    known = snapshot.partitions if snapshot else frozenset()
    for tp in sorted({*committed, *announced, *known}):
        offset, end = committed.get(tp), ends.get(tp)
        owner = infos.get(owners.get(tp, ""))
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "current_offset": offset,
                "log_end_offset": end,
                "lag": max(end - offset, 0) if offset is not None and end is not None else None,
                "member_id": owner.member_id if owner else None,
                "executor": owner.executor_id if owner else None,
                "host": owner.host if owner else None,
                "unreachable": snapshot.unreachable.get(tp) if snapshot else None,
            }
        )
    return rows


def _scheduled(coordinator: Coordinator) -> dict[str, Any] | None:
    """The partitions of departed members that wait for a replacement, and the round that ends the wait; None: no wait."""
    found = coordinator.scheduled()
    return found and {"partitions": [list(tp) for tp in sorted(found[0])], "due_in_ms": found[1]}


def _rebalance(done: Rebalanced) -> dict[str, Any]:
    before = {tp: name for name, partitions in done.before.items() for tp in partitions}
    after = {tp: name for name, partitions in done.after.items() for tp in partitions}
    return {
        "generation": done.generation,
        "reason": done.reason,
        "started_ms": done.started_ms,
        "duration_ms": done.ended_ms - done.started_ms,
        "protocol": done.protocol_name,
        "members": len(done.members) - 1,
        "moved": [list(tp) for tp, name in sorted(after.items()) if before.get(tp, name) != name],
        "revoked": [list(tp) for tp in sorted(before) if tp not in after],
        "before": {name: [list(tp) for tp in partitions] for name, partitions in done.before.items()},
        "after": {name: [list(tp) for tp in partitions] for name, partitions in done.after.items()},
    }
