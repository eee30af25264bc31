"""Kafka's own assignors, in a JVM of their own: the oracle.  What is asked can be printed and asked again by itself."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias

from sparkcohort.assignors import MemberSubscription, Partition, Racks
from tests.kit.class_archives import quick
from tests.kit.jars import class_path, java

SOURCE: Final = Path(__file__).with_name("java") / "KafkaAssignors.java"
ANSWER_S: Final = 60.0
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
Given: TypeAlias = Mapping[str, tuple[Partition, ...]]


@dataclass(frozen=True)
class Case:
    """A group, as assignors see it; ``version`` 1: members tell Kafka's in that version of ConsumerProtocol."""

    topics: Mapping[str, int]
    members: Mapping[str, MemberSubscription]
    racks: Racks = field(default_factory=dict)
    version: int = 3

    def lines(self) -> list[str]:
        """The case in the words of KafkaAssignors.java."""
        told = []
        for topic, count in self.topics.items():
            where = [",".join(sorted(racks)) or "-" for racks in self.racks.get(topic, [()] * count)]
            told += [f"topic {topic} {';'.join(where)}"] if count else []
        for member, said in self.members.items():
            owned = ",".join(f"{topic}:{number}" for topic, number in said.owned)
            words = (said.instance_id or "-", said.rack or "-", str(said.generation), ",".join(said.topics) or "-")
            told.append(f"{'member1' if self.version == 1 else 'member'} {member} {' '.join(words)} {owned or '-'}")
        return told

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Raised(Exception):
    """Kafka's assignor raised; the text has the exception's class and message."""


class KafkaAssignors:
    """One JVM that answers any number of cases; a context manager.  Needs a Java with its compiler."""

    def __enter__(self) -> Self:
        """Start it; the first question waits until it is up."""
        command = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            java(),
            *quick("broker"),
            QUIET,
            "-cp",
            class_path("broker"),
            str(SOURCE),
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def ask(self, assignor: str, case: Case) -> Given:
        """What Kafka's assignor of this name gives, sorted; raises ``Raised``."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the JVM has no pipes")
        process.stdin.write("\n".join([*case.lines(), f"assign {assignor}"]) + "\n")
        process.stdin.flush()
        waiting = select.poll()  # select() takes no descriptor above 1,023
        waiting.register(process.stdout, select.POLLIN)
        ready = waiting.poll(1000 * ANSWER_S)
        words = process.stdout.readline().split() if ready else []
        match words:
            case ["given", *pairs]:
                return {name: _partitions(given) for name, given in sorted(zip(pairs[::2], pairs[1::2], strict=True))}
            case ["raised", *said]:
                raise Raised(" ".join(said))
        raise RuntimeError(f"the JVM said {words} (status {process.poll()}): is its Java a JDK (javac)?")


def _partitions(word: str) -> tuple[Partition, ...]:
    pairs = (each.rsplit(":", 1) for each in word.split(",") if word != "-")
    return tuple(sorted((topic, int(number)) for topic, number in pairs))
