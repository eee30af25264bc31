"""What ``spark.read`` refuses, on both formats, each by its words; and what one of them refuses alone."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from tests.kit.batch_reads import at, load, ordered, told
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.streams import FORMS

pytestmark = [pytest.mark.thorough("refusals beside Spark's own source"), pytest.mark.timeout(240)]

HOUR_MS: Final = 3_600_000
BASE_MS: Final = int(time.time() * 1000) - 2 * HOUR_MS  # of late: Kafka's retention counts from a record's timestamp
LATER: Final = BASE_MS + 1
OLD, END = 80, 240  # of the first two partitions: where the records of an hour later begin, and the end


@pytest.fixture(scope="module")
def spans(broker: Broker) -> str:
    """A topic of three partitions, of which the third is empty."""
    broker.admin.create_topic("spans", 3)
    produce(broker.bootstrap, "spans", 2 * OLD, partitions=2, timestamp_ms=BASE_MS)
    produce(broker.bootstrap, "spans", 2 * (END - OLD), partitions=2, first=OLD, timestamp_ms=BASE_MS + HOUR_MS)
    return "spans"


# What each says, Spark's own (4.2.0) first.
REFUSED: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "a start at latest": (
        {"startingOffsets": "latest"},
        "starting offset can't be latest for batch queries",
        "a batch read can't start at latest; give earliest, or JSON",
    ),
    "an end at earliest": (
        {"endingOffsets": "earliest"},
        "ending offset can't be earliest for batch queries",
        "a batch read can't end at earliest; give latest, or JSON",
    ),
    "unresolved start offset greater than end offset": (
        {"startingOffsets": at("spans", 9, 0, 0), "endingOffsets": at("spans", 5, 1, 0)},
        "The specified start offset 9 is greater than the end offset 5",
        "spans-0 starts at 9 and ends at 5",
    ),
    "resolved start offset greater than end offset (with latest)": (
        {"startingOffsets": at("spans", 1000, 0, 0)},
        "The resolved start offset 1000 is greater than the resolved end offset 240",
        "spans-0 starts at 1000 and ends at 240",
    ),
    "resolved start offset greater than end offset (without latest)": (
        {"startingOffsets": at("spans", 100, 0, 0), "endingTimestamp": LATER},
        "The resolved start offset 100 is greater than the resolved end offset 80",
        "spans-0 starts at 100 and ends at 80",
    ),
    "no matched offset for timestamp - startingOffsets": (
        {"startingTimestamp": 2**42},
        "No offset matched from request of topic-partition spans-",
        "no record at or after the starting timestamp in spans-0, spans-1",
    ),
    "times of some partitions": (
        {"startingOffsetsByTimestamp": '{"spans":{"0":5}}'},
        "Partitions specified for Kafka timestamp based start offsets don't match what are assigned",
        "startingOffsetsByTimestamp leaves out spans-1, spans-2",
    ),
    "an end that isn't there": (
        {"endingOffsets": at("spans", -1, -1, -1, 5)},
        "Specified: Set(spans-0, spans-1, spans-2, spans-3) Assigned: Set(spans-0, spans-1, spans-2)",
        "endingOffsets names spans-3, which does not exist",
    ),
    "no such topic": (
        {"subscribe": "nosuchtopic"},
        "UnknownTopicOrPartitionException",
        "option subscribe names topic nosuchtopic",
    ),
    "an end behind the log's": (
        {"endingOffsets": at("spans", 300, -1, -1), "kafkaConsumer__pollTimeoutMs": 3000},
        "Could not read records in offset [240, 300) for topic partition spans-0",
        "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Could not read records in offset [240, 300)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_sparks_own_source_refuses_is_refused(spark: SparkSession, broker: Broker, spans: str, name: str) -> None:
    """Both fail, each by its words; ours say by one sentence which option it is and what to do."""
    changes, theirs, ours = REFUSED[name]
    for form in FORMS:
        said = told(lambda form=form: load(spark, broker, spans, form, **changes))
        assert (ours if form == "cohort" else theirs) in said


def test_partitions_that_do_not_exist(spark: SparkSession, broker: Broker, spans: str) -> None:
    """Spark's own source reads what there is of ``assign`` and says nothing; here it is an error that names them."""
    changes: dict[str, Any] = {"subscribe": None, "assign": '{"spans":[0,7]}'}
    for form in FORMS[1:]:
        assert load(spark, broker, spans, form, **changes).count() == END
    assert "option assign names partition spans-7" in told(lambda: load(spark, broker, spans, **changes))


def test_partitions_that_json_leaves_out(spark: SparkSession, broker: Broker, spans: str) -> None:
    """Spark's own source refuses that; here they start at startingOffsets.fallback and end at latest."""
    changes = {"startingOffsets": '{"spans":{"1":230}}', "endingOffsets": '{"spans":{"0":20}}'}
    refused = {
        "start offset and end offset should have the same topic-partitions": changes,
        "Specified: Set(spans-1) Assigned: Set(spans-0, spans-1, spans-2)": changes | {"endingOffsets": "latest"},
    }
    for form in FORMS[1:]:
        for words, given in refused.items():
            assert words in told(lambda form=form, given=given: load(spark, broker, spans, form, **given))
    rows = ordered(load(spark, broker, spans, **changes))
    assert [(row.partition, row.offset) for row in rows] == [
        *((0, n) for n in range(20)),
        *((1, n) for n in range(230, 240)),
    ]
