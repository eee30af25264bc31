"""Kafka's own assignors, in a JVM of their own: the oracle.  What is asked can be printed and asked again by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from sparkcohort.assignors import MemberSubscription, Partition, Racks
from tests.kit.class_archives import quick
from tests.kit.jars import class_path
from tests.kit.java_program import JavaProgram

Given: TypeAlias = Mapping[str, tuple[Partition, ...]]


@dataclass(frozen=True)
class Case:
    """A group, as assignors see it."""

    topics: Mapping[str, int]
    members: Mapping[str, MemberSubscription]
    racks: Racks = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The case in the words of KafkaAssignors.java."""
        told = []
        for topic, count in self.topics.items():
            where = [",".join(sorted(racks)) or "-" for racks in self.racks.get(topic, [()] * count)]
            told += [f"topic {topic} {';'.join(where)}"] if count else []
        for member, said in self.members.items():
            owned = ",".join(f"{topic}:{number}" for topic, number in said.owned)
            words = (said.instance_id or "-", said.rack or "-", str(said.generation), ",".join(said.topics) or "-")
            told.append(f"member {member} {' '.join(words)} {owned or '-'}")
        return told

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Raised(Exception):
    """Kafka's assignor raised; the text has the exception's class and message."""


class KafkaAssignors(JavaProgram):
    """Kafka's assignors by their names."""

    source = Path(__file__).with_name("java") / "KafkaAssignors.java"

    def arguments(self) -> list[str]:
        """Java's, with the broker's jars."""
        return [*quick("broker"), "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", class_path("broker")]

    def assign(self, assignor: str, case: Case) -> Given:
        """What Kafka's assignor of this name gives, sorted; raises ``Raised``."""
        kind, *words = self.ask("\n".join([*case.lines(), f"assign {assignor}"])).split()
        if kind == "raised":
            raise Raised(" ".join(words))
        return {name: _partitions(given) for name, given in sorted(zip(words[::2], words[1::2], strict=True))}


def _partitions(word: str) -> tuple[Partition, ...]:
    pairs = (each.rsplit(":", 1) for each in word.split(",") if word != "-")
    return tuple(sorted((topic, int(number)) for topic, number in pairs))
