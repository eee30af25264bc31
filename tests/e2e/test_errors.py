"""What a user sees when something is wrong: one error each, early, that names the option or the resource and what to do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.broker import Broker
from tests.support.produce import produce
from tests.support.streams import Stream, options

FRONT = 400  # characters of the message in which the cause has to stand: what a terminal shows at a glance
API_TIMEOUT_MS = 3_000
SLACK_S = 30.0  # starting a stream's Python process takes seconds on a busy machine


def refusal(spark: SparkSession, source: dict[str, str], checkpoint: Path) -> str:
    """What a user gets: from ``load()`` where that refuses the options, else from the query's end."""
    try:
        return Stream(spark, source, checkpoint).failure()
    except PySparkException as error:
        return str(error)


# Options that change a good query into a bad one, and what the message has to say.
BAD_OPTIONS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("no group", {"group__id": None}, ["option group.id is missing", "name the Kafka group"]),
    ("no topics", {"subscribe": None}, ["subscribe, subscribePattern and assign", "none is given"]),
    ("no brokers", {"kafka__bootstrap__servers": None}, ["option kafka.bootstrap.servers is missing"]),
    ("misspelt", {"startingOffset": "earliest"}, ["option startingOffset is unknown", "did you mean startingOffsets"]),
    ("unprefixed", {"security.protocol": "SSL"}, ["option security.protocol is unknown", "kafka.security.protocol"]),
    ("refused", {"kafka__auto__offset__reset": "latest"}, ["kafka.auto.offset.reset", "use startingOffsets"]),
    ("unknown setting", {"kafka__fetch__min__byte": 1}, ["kafka.fetch.min.byte", "did you mean kafka.fetch.min.bytes"]),
    ("for batches", {"endingOffsets": "latest"}, ["option endingOffsets is not supported", "availableNow"]),
    ("bad JSON", {"startingOffsets": '{"t":{"0":'}, ["option startingOffsets is not JSON", '{"topic":{"0":123}}']),
    ("bad number", {"maxOffsetsPerTrigger": "many"}, ["option maxOffsetsPerTrigger='many' is not a whole number"]),
]


@pytest.mark.parametrize(("changes", "said"), [case[1:] for case in BAD_OPTIONS], ids=[case[0] for case in BAD_OPTIONS])
def test_bad_options(
    spark: SparkSession, broker: Broker, checkpoint: Path, changes: dict[str, Any], said: list[str]
) -> None:
    """An option that is missing, unknown, refused or malformed is named, with what to do, before anything runs."""
    message = refusal(spark, options(broker, "orders", **changes), checkpoint)
    print("\n>>>", message, flush=True)
    for words in said:
        assert words in message[:FRONT]
