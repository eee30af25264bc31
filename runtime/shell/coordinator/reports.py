"""The history of a run as JSON-able values, for ``cohort rebalances`` and ``cohort story``; times are seconds since 1970."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparkcohort.runtime.group import summary
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.coordinator.history import Entry, History, PartitionsByMember

Names = Mapping[str, tuple[str, str]]  # (executor, host) by member id

DETAILED: Final = 8
"""Rebalances with their assignments in a status: each scrape makes one, and there may be 10,000 partitions."""


def history(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The rebalances, for the status; the last ``DETAILED`` have ``before`` and ``after``."""
    detailed = len(entries) - DETAILED
    return [
        {
            **_facts(entry),
            "cause": entry.cause,
            "kept": entry.kept_count,
            "started_ms": entry.done.started_ms,
            "moved": _plain(entry.moved),
            "revoked": _plain(entry.revoked),
            "before": _holdings(entry.done.previous_assignment) if place >= detailed else {},
            "after": _holdings(entry.done.assignment) if place >= detailed else {},
        }
        for place, entry in enumerate(entries)
    ]


def _facts(entry: Entry) -> dict[str, Any]:
    done = entry.done
    return {
        "generation": done.generation,
        "at": entry.ended_at,
        "reason": str(done.reason),
        "duration_ms": done.ended_ms - done.started_ms,
        "protocol": done.protocol_name,
        "result": entry.result,
        "members": max(len(done.members) - 1, 0),  # without the driver's own
    }


def _holdings(partitions_by_member: PartitionsByMember) -> dict[str, list[list[Any]]]:
    return {name: _plain(partitions) for name, partitions in partitions_by_member.items()}


def rebalances(past: History, last: int) -> list[dict[str, Any]]:
    """The last rebalances, newest last, without assignments; ``moved`` and ``revoked`` are counts."""
    names = past.names()
    return [_line(entry, names) for entry in past.entries()[-last:]]


def rebalance_details(past: History, generation: int) -> dict[str, Any]:
    """One rebalance with its assignments; ``generation`` -1 is the latest, -2 the one before.

    {"known": [generations]} for an unknown generation.
    """
    entries, names = past.entries(), past.names()
    if generation < 0:
        entry = entries[generation] if -generation <= len(entries) else None
    else:
        entry = next((entry for entry in reversed(entries) if entry.done.generation == generation), None)
    if entry is None:
        return {"known": [entry.done.generation for entry in entries]}
    removed = [
        {"member_id": member_id, "client_id": client_id(member_id, names), "reason": reason}
        for member_id, reason in entry.removed
    ]
    return {**_line(entry, names), "removed": removed, "assignments": _assignments(entry, names)}


def member_timeline(past: History, name: str) -> dict[str, Any]:
    """A member's timeline; ``name`` is its member id, or a client id (then the latest member with it).

    {"known": [[member id, client id], …]} for an unknown name.
    """
    member_ids, names = past.member_ids(), past.names()
    called = [member_id for member_id in member_ids if name in (member_id, client_id(member_id, names))]
    if not called:
        return {"known": [[member_id, client_id(member_id, names)] for member_id in member_ids]}
    member_id = called[-1]
    return {
        "member_id": member_id,
        "client_id": client_id(member_id, names),
        "host": host(member_id, names),
        "lines": [{"at": time_s, "what": line} for time_s, line in past.member_timeline(member_id)],
    }


def client_id(member_id: str, names: Names) -> str | None:
    """The client id of a present or former member, from its executor; None where the executor is unknown."""
    return f"executor-{names[member_id][0]}" if member_id in names else None


def host(member_id: str, names: Names) -> str | None:
    """The host of a present or former member."""
    return names[member_id][1] if member_id in names else None


def readable(words: str, names: Names) -> str:
    """The group's words with client ids in place of member ids."""
    return summary.with_names(words, names, lambda member_id: client_id(member_id, names) or member_id)


def _line(entry: Entry, names: Names) -> dict[str, Any]:
    facts = _facts(entry)
    words = {name: readable(facts[name], names) for name in ("reason", "result")}
    return {**facts, **words, "moved": len(entry.moved), "revoked": len(entry.revoked)}


def _assignments(entry: Entry, names: Names) -> list[dict[str, Any]]:
    """A row for each member: partitions before, after, kept, gained (from), lost (to), to be revoked."""
    done = entry.done
    former_owners = {tp: old for (old, _), partitions in entry.routes.items() for tp in partitions if old}
    owners = {tp: name for name, partitions in done.assignment.items() for tp in partitions}
    rows = []
    for member_id in dict.fromkeys([*done.assignment, *done.previous_assignment]):
        former, current = (
            sorted(done.previous_assignment.get(member_id, ())),
            sorted(done.assignment.get(member_id, ())),
        )
        if member_id not in names and not former and not current:  # the driver's own
            continue
        gained, lost_partitions = sorted(set(current) - set(former)), sorted(set(former) - set(current))
        rows.append(
            {
                "member_id": member_id,
                "client_id": client_id(member_id, names),
                "host": host(member_id, names),
                "present": member_id in done.members,
                "before": _plain_objects(former),
                "after": _plain_objects(current),
                "kept": _plain_objects(sorted(set(former) & set(current))),
                "gained": [
                    {**_one(tp), "from": client_id(former_owners.get(tp, ""), names) or former_owners.get(tp)}
                    for tp in gained
                ],
                "lost": [
                    {**_one(tp), "to": client_id(owners.get(tp, ""), names) or owners.get(tp)} for tp in lost_partitions
                ],
                "giving_up": _plain_objects(sorted(tp for tp, name in entry.giving_up.items() if name == member_id)),
            }
        )
    return sorted(rows, key=lambda row: (str(row["client_id"]), str(row["member_id"])))


def _one(tp: TopicPartition) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition}


def _plain_objects(partitions: Sequence[TopicPartition]) -> list[dict[str, Any]]:
    return [_one(tp) for tp in partitions]


def _plain(partitions: Sequence[TopicPartition]) -> list[list[Any]]:
    return [list(tp) for tp in partitions]
