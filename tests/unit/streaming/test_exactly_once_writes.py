"""Writes that can't be had exactly once are refused where Spark plans them, before a broker is asked."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from sparkcohort.runtime.errors import OptionError
from sparkcohort.streaming.source import CohortSource

SCHEMA = StructType([StructField("value", BinaryType())])
OPTIONS = {
    "kafka.bootstrap.servers": "b1:9092",
    "topic": "billed",
    "delivery.guarantee": "exactly-once",
    "sink.id": "billed",
}


def source(**more: Any) -> CohortSource:
    """A write with these options; ``__`` stands for a dot."""
    return CohortSource({**OPTIONS, **{name.replace("__", "."): value for name, value in more.items()}})


def test_a_batch_write_wants_to_know_which_run_it_is() -> None:
    """Also in ``foreachBatch``, which Spark shows as a batch write."""
    with pytest.raises(OptionError, match=r"exactly-once of a batch write wants txn\.app\.id and txn\.version"):
        source().writer(SCHEMA, overwrite=False)


def test_a_stream_takes_no_run_of_a_job() -> None:
    """Its batches have numbers."""
    with pytest.raises(OptionError, match=r"option txn\.app\.id is for batch writes: .*leave it out"):
        source(txn__app__id="nightly", txn__version="1").streamWriter(SCHEMA, overwrite=False)


@pytest.mark.parametrize("value", ["true", "True"])
def test_a_stream_takes_no_asynchronous_progress(value: str) -> None:
    """Spark would begin batches before it knows that those before are committed."""
    with pytest.raises(OptionError, match=r"asyncProgressTrackingEnabled does not go with delivery\.guarantee"):
        source(asyncProgressTrackingEnabled=value).streamWriter(SCHEMA, overwrite=False)
