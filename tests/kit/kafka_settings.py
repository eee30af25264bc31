"""What Kafka's own consumer says of its settings, asked of its ``ConfigDef``: the oracle for ours."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaException

from tests.kit.jars import QUICK, jars, java

SOURCE: Final = Path(__file__).with_name("java") / "ConsumerSettings.java"
NUMBERS: Final = {"INT": 2**31 - 1, "LONG": 2**63 - 1, "SHORT": 2**15 - 1}
"""The greatest value of each type of whole numbers."""


class JavasSetting(NamedTuple):
    """A row of ``ConsumerConfig.configDef()``; ``default`` and ``bounds`` as Java writes them."""

    name: str
    type: str
    default: str
    bounds: str

    def numbers(self) -> set[int]:
        """Values at which something may happen: bounds of Java's and of its types, defaults, and what Java lacks."""
        ends = [text for text in self.bounds.strip("[]").split(",") if text.lstrip("-").isdigit()]
        default = [self.default] if self.default.lstrip("-").isdigit() else []
        return {-1, 0, NUMBERS[self.type], NUMBERS["LONG"], *map(int, ends), *map(int, default)}


@cache
def consumer_settings() -> tuple[JavasSetting, ...]:
    """All settings of the consumer that Spark's source has.  Needs a Java with its compiler."""
    return _settings("consumer")


@cache
def producer_settings() -> tuple[JavasSetting, ...]:
    """The same of its producer."""
    return _settings("producer")


def _settings(kind: str) -> tuple[JavasSetting, ...]:
    clients = [jar for jar in jars("spark-kafka") if jar.name.startswith("kafka-clients")]
    logging = [jar for jar in jars("broker") if jar.name.startswith("slf4j-api")]  # the only thing that it asks for
    path = os.pathsep.join(map(str, clients + logging))
    command = [java(), *QUICK, "-cp", path, str(SOURCE), kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return tuple(JavasSetting(*line.split("\t")) for line in done.stdout.splitlines())


def is_librdkafkas(name: str) -> bool:
    """Whether the installed librdkafka has a setting of this name."""
    try:
        Consumer({"group.id": "g", "log_level": 0, name: "no value"}).close()
    except KafkaException as error:
        return "No such configuration property" not in str(error)
    except (TypeError, ValueError):
        pass  # a call-back, for which Python's client wants a function
    return True
