"""Random groups, as assignors see them, each made from its number; and what has to hold of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Literal, TypeAlias

from sparkcohort.assignors import ASSIGNORS, MemberSubscription, Partition, Racks
from sparkcohort.assignors.solver.ownership import resolve_ownership
from tests.kit.groups import rejoin
from tests.kit.kafka_assignors import Case, Given

Assign: TypeAlias = Callable[[Case], Given]
Known: TypeAlias = Literal["none", "some", "all"]
MOST_ROUNDS = 5  # the round after a change, and Kafka's limit of four follow-up rounds


def ours(name: str) -> Assign:
    """The assignor of this name, as a function of a case."""
    return lambda case: ASSIGNORS[name].assign(case.topics, case.members, case.racks)


def fresh(number: int, *, equal: bool | None = None, racks: Known = "none") -> Case:
    """A group that begins: topics that are missing, static members among others; ``equal``: all want the same.

    ``racks``: whether those of replicas are known, of none, some or all partitions.
    """
    random = Random(number)
    topics = {f"t{each}": random.choice((1, 2, 3, 4, 6, 6, 9)) for each in range(random.randint(1, 4))}
    names = [f"m{each}" for each in range(random.randint(1, 7))]
    instances = random.sample(range(10), len(names))
    same = random.random() < 0.6 if equal is None else equal
    members = {
        name: MemberSubscription(
            tuple(topics) if same else _some(random, [*topics, "missing"]),
            instance_id=f"i{instance}" if random.random() < 0.3 else None,
            rack=random.choice((None, "a", "b", "c", "d")) if racks != "none" else None,
        )
        for name, instance in zip(names, instances, strict=True)
    }
    return Case(topics, members, _racks(random, topics, racks) if racks != "none" else {})


def _some(random: Random, topics: list[str]) -> tuple[str, ...]:
    return tuple(random.sample(topics, random.randint(1, len(topics))))


def _racks(random: Random, topics: Mapping[str, int], known: Known) -> Racks:
    """Where replicas are: anywhere, but of some topics all on the same racks."""
    least = 1 if known == "all" else 0
    where: dict[str, list[list[str]]] = {}
    for topic, count in topics.items():
        if known == "all" or random.random() < 0.9:
            everywhere = random.random() < 0.2
            where[topic] = [
                ["a", "b"] if everywhere else random.sample("abc", random.randint(least, 3)) for _ in range(count)
            ]
    return where


def lived(number: int, *, equal: bool | None = None, racks: Known = "none") -> Case:
    """A settled group to which something happened: members come, go, return late, change their minds; topics grow."""
    random, case = Random(-number - 1), fresh(number, equal=equal, racks=racks)
    members = settle(ours("cooperative-sticky"), case)[0]
    late = {name: said for name, said in members.items() if random.random() < 0.2}
    for _ in range(random.randint(1, 2)):
        event = random.choice(("leaves", "joins", "joins", "wants", "grows"))
        if event == "leaves" and len(members) > 1:
            members.pop(random.choice(list(members)))
        elif event == "joins":
            wanted = random.choice(list(case.members.values())).topics
            rack = random.choice(("a", "b", None)) if racks != "none" else None
            members[f"n{len(members)}"] = MemberSubscription(wanted, rack=rack)
        elif event == "wants" and not equal:
            name = random.choice(list(members))
            members[name] = replace(members[name], topics=_some(random, list(case.topics)))
        elif event == "grows" and racks == "none":
            case = replace(case, topics={topic: count + random.randint(0, 2) for topic, count in case.topics.items()})
    settled = replace(case, members=members)
    if late and random.random() < 0.5:  # others took over what these still claim, of a generation before
        now = {name: replace(said, owned=()) if name in late else said for name, said in members.items()}
        now = settle(ours("cooperative-sticky"), replace(case, members=now))[0]
        settled = replace(case, members=now | {name: said for name, said in late.items() if name in now})
    return replace(settled, members={name: replace(said, since={}) for name, said in settled.members.items()})


def settle(assign: Assign, case: Case) -> tuple[dict[str, MemberSubscription], list[Given]]:
    """Rounds until nothing changes, or ``MOST_ROUNDS``: the members then, and what was given in each round."""
    members, generation, rounds = (
        dict(case.members),
        1 + max((m.generation for m in case.members.values()), default=0),
        [],
    )
    for at in range(MOST_ROUNDS):
        given = assign(replace(case, members=members))
        if at and all(given[name] == tuple(sorted(said.owned)) for name, said in members.items()):
            break
        rounds.append(given)
        members = {name: replace(said, since={}) for name, said in rejoin(members, given, generation + at).items()}
    return members, rounds


# --- laws --------------------------------------------------------------------------------------------


def broken(case: Case, rounds: list[Given]) -> list[str]:
    """What is wrong with an answer that took these rounds, in words; of completeness and balance, once it has settled in the last of them."""
    wrong = [word for given in rounds for word in _invalid(case, given)]
    last = rounds[-1]
    owned = {partition for partitions in last.values() for partition in partitions}
    for topic, count in case.topics.items():
        if any(topic in said.topics for said in case.members.values()):
            wrong += [f"{topic}-{number} has no owner" for number in range(count) if (topic, number) not in owned]
    for name, partitions in last.items():
        for topic, _ in partitions:
            fewest = min(len(last[other]) for other, said in case.members.items() if topic in said.topics)
            if len(partitions) - fewest > 1:
                wrong.append(f"{name} has {len(partitions)}, of {topic} too, which another wants who has {fewest}")
    return sorted(set(wrong))


def _invalid(case: Case, given: Given) -> list[str]:
    every = [partition for partitions in given.values() for partition in partitions]
    wrong = [f"{topic}-{number} has two owners" for topic, number in set(every) if every.count((topic, number)) > 1]
    for name, partitions in given.items():
        for topic, number in partitions:
            if topic not in case.members[name].topics:
                wrong.append(f"{name} has {topic}-{number} without wanting it")
            if not 0 <= number < case.topics.get(topic, 0):
                wrong.append(f"{name} has {topic}-{number}, which doesn't exist")
    return wrong


def handed_over_early(case: Case, given: Given) -> list[str]:
    """Partitions given to somebody while another, who claims them, hasn't given them up."""
    owner = resolve_ownership(case.topics, case.members).owner
    return [
        f"{topic}-{number} goes to {name}, and {other} claims it"
        for name, partitions in given.items()
        for topic, number in partitions
        for other, said in case.members.items()
        if other != name and (topic, number) in said.owned and owner.get((topic, number)) != name
    ]


def imbalance(given: Given) -> int:
    """The sum of the squares of the loads: the less, the better balanced."""
    return sum(len(partitions) ** 2 for partitions in given.values())


def moved(case: Case, given: Given) -> int:
    """How many partitions are away from their valid owners."""
    owner: Mapping[Partition, str] = resolve_ownership(case.topics, case.members).owner
    return sum(partition not in given[name] for partition, name in owner.items())


def mismatches(case: Case, given: Given) -> int:
    """How many partitions have no replica in their owner's rack, of owners whose rack is known."""
    return sum(
        said.rack is not None and said.rack not in _where(case, topic, number)
        for name, said in case.members.items()
        for topic, number in given[name]
    )


def _where(case: Case, topic: str, number: int) -> frozenset[str]:
    where = case.racks.get(topic, ())
    return frozenset(where[number]) if number < len(where) else frozenset()
