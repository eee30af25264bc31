"""A live group as a case for ``cohort simulate``, from its coordinator's status (see ``status.build``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkcohort.assignors import MemberSubscription
from sparkcohort.cli.simulate.case import Case
from sparkcohort.cli.views import client_id


def case_of_status(status: Mapping[str, Any]) -> Case:
    """The case of a live Cohort group, members by their executors."""
    rows = {(row["topic"], row["partition"]): row for row in status["partitions"]}
    owned = {tuple(partition) for member in status["members"] for partition in member["owned"]}
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted({*rows, *owned}):
        numbers.setdefault(topic, []).append(number)
    places = {(topic, number): (topic, place) for topic, each in numbers.items() for place, number in enumerate(each)}
    members = {}
    for row in status["members"]:
        partitions = [places[tuple(partition)] for partition in row["owned"]]
        members[client_id(row["executor"]) or row["member_id"]] = MemberSubscription(
            topics=tuple(numbers),
            owned=tuple(sorted(partitions)),
            generation=status["generation"],
            instance_id=row["instance_id"],
            rack=row["rack"],
            since=dict(zip(partitions, row["generations"], strict=True)),
        )
    racks = {t: [tuple(rows.get((t, n), {}).get("racks") or ()) for n in each] for t, each in numbers.items()}
    notes = [_renumbering_note(topic, each) for topic, each in numbers.items() if each != list(range(len(each)))]
    if status["state"] != "Stable":
        notes.append(f"the group is not settled: {status['state']}")
    return Case(
        topics={topic: len(each) for topic, each in numbers.items()},
        members=members,
        racks={topic: each for topic, each in racks.items() if any(each)},
        assignor=status["protocol"] or "",
        notes=tuple(notes),
    )


def _renumbering_note(topic: str, numbers: list[int]) -> str:
    """The note on a topic of which the query reads only some partitions: they are renumbered, as assignors count from 0."""
    first = ", ".join(f"{place} is {topic}-{number}" for place, number in enumerate(numbers[:3]))
    return f"{topic} is read in part, and its partitions are renumbered: {first}{' …' * (len(numbers) > 3)}"
