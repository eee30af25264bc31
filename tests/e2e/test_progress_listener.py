"""``ProgressListener``: the Kafka group follows Spark's commit log at once, and progress is seen as at Spark's own source."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from sparkcohort import offsets_behind_latest
from tests.e2e.test_metrics import scraped
from tests.kit.broker import Broker
from tests.kit.jars import reader_jar
from tests.kit.produce import produce
from tests.kit.streams import FORMS, Stream, options
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.timeout(240)  # a busy machine makes a query slow

HOURLY = {"processingTime": "1 hour"}
BEHIND = {"minOffsetsBehindLatest": "40", "maxOffsetsBehindLatest": "88", "avgOffsetsBehindLatest": "64.0"}
SOON_S = 90  # within a second, on a machine that is not busy


def progress(run: Stream) -> StreamingQueryProgress:
    """The progress of the first batch, as soon as there is any."""
    wait_until(lambda: run.query.lastProgress is not None, SOON_S, "progress")
    found = run.query.lastProgress
    assert found is not None
    return found


@pytest.mark.usefixtures("listener")
def test_the_group_follows_within_the_trigger(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> None:
    """The first batch, with a trigger that doesn't come again: Kafka has its end, also when the query is stopped.

    Under another checkpoint too, as a notebook's does at each start: name and port are those of the run before.
    """
    broker.admin.create_topic(topic, 2)
    for end in (100, 200):
        produce(broker.bootstrap, topic, 100, partitions=2, first=(end - 100) // 2)
        with Stream(spark, options(broker, topic), tmp_path / str(end), trigger=HOURLY) as run:
            run.wait_for_rows(100)
            wait_until(lambda end=end: sum(broker.admin.committed(topic).values()) == end, SOON_S, "its end")  # type: ignore[misc]
        assert sum(broker.admin.committed(topic).values()) == end


@pytest.mark.thorough("more groups and triggers of the listener")
def test_without_a_listener_with_the_next_trigger(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path
) -> None:
    """As documented."""
    broker.fill(topic, 10)
    with Stream(spark, options(broker, topic), checkpoint, trigger=HOURLY) as run:
        run.wait_for_rows(10)
        progress(run)
    assert sum(broker.admin.committed(topic).values()) == 0
    Stream(spark, options(broker, topic), checkpoint, batches=run.batches).finish()
    assert sum(broker.admin.committed(topic).values()) == 10


@pytest.mark.thorough("figures beside Spark's own source")
@pytest.mark.usefixtures("listener")
def test_offsets_behind_latest_as_sparks_own(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, port: int
) -> None:
    """The same three figures for the same batch; Prometheus has them, under the query's name."""
    broker.fill(topic, 100, 2)
    produce(broker.bootstrap, topic, 60, partitions=1, first=100)
    limited = options(broker, topic, maxOffsetsPerTrigger=32)  # 22 of 110 and 10 of 50
    for form in FORMS[1:]:
        with Stream(spark, limited, tmp_path / "spark", form=form, trigger=HOURLY) as theirs:
            theirs.wait_for_rows(1)
            assert dict(progress(theirs)["sources"][0]["metrics"]) == BEHIND
    with Stream(spark, limited | {"metrics.port": str(port)}, tmp_path / "cohort", trigger=HOURLY) as ours:
        ours.wait_for_rows(1)
        (found,) = offsets_behind_latest(progress(ours))
        assert found == BEHIND
        if reader_jar():
            assert dict(progress(ours)["sources"][0]["metrics"]).items() >= BEHIND.items()

        metrics = {
            f"cohort_offsets_behind_latest_{name.removesuffix('OffsetsBehindLatest')}": float(value)
            for name, value in found.items()
        }
        wait_until(
            lambda: metrics.items() <= {name: value for (name, _), value in scraped(port).items()}.items(),
            SOON_S,
            "the figures in Prometheus",
        )
