"""Spark's progress events: offsets behind the ends of the logs, and batches that Spark has committed.

A Python source can add no metrics to a progress event (the reader in the JVM does), and learns only with the next trigger that a batch is in the commit
log.  A listener sees the event as soon as Spark has committed the batch (``MicroBatchExecution``: ``markMicroBatchEnd``
comes before ``finishTrigger``).
"""

from __future__ import annotations

from typing import Any

import msgspec
from pyspark.sql.streaming import StreamingQueryListener

from sparkcohort.runtime.batches.offsets_behind import as_metrics, offsets_behind
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.shell.rpc.batch_reports import BatchReports

_Offsets = dict[str, dict[str, int]]
_OFFSETS = msgspec.json.Decoder(_Offsets)


def offsets_behind_latest(progress: Any) -> list[dict[str, str]]:
    """How far a batch was behind the ends of the logs, for each source of ``query.lastProgress`` or of an event's ``progress``.

    Names and form are those of Spark's own Kafka source, ``{"minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "7",
    "avgOffsetsBehindLatest": "3.5"}``, over all partitions, in records.  Empty for a source that reports no ends of logs.
    """
    return [{} if source is None else as_metrics(source.offsets_behind) for source in _sources(progress)]


class ProgressListener(StreamingQueryListener):
    """Reports each committed batch to the Cohort sources of this application: ``spark.streams.addListener``.

    With it the Kafka group has a batch as soon as Spark's commit log has it; without it, at the next trigger.  It also gives
    ``cohort_offsets_behind_latest_min``, ``_max`` and ``_avg`` their values.
    """

    def __init__(self) -> None:
        """Make one for each application, for as long as it runs."""
        self._reports = BatchReports()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  PySpark's name
        """Nothing to do: there is no batch yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  PySpark's name
        """A batch is in the commit log: queue the report.  Spark's next event waits for this call."""
        progress = event.progress
        sources = tuple(source for source in _sources(progress) if source is not None)
        if sources:
            is_ours = any(not partitions for source in sources for partitions in source.end.values())
            batch = calls.BatchCommitted(str(progress.id), progress.name or "", sources)
            self._reports.add_batch(batch, is_ours=is_ours)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  PySpark's name
        """Nothing to do: there is no batch."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  PySpark's name
        """Drop the reports of the query that are not sent yet."""
        self._reports.forget_query(str(event.id))

    def close(self) -> None:
        """End its thread, after ``spark.streams.removeListener``."""
        self._reports.close()


def _sources(progress: Any) -> list[calls.SourceProgress | None]:
    """The sources of a progress event; None for one whose offsets are none of Kafka's."""
    sources = [] if progress is None else progress["sources"] if isinstance(progress, dict) else progress.sources
    return [_source(_field(each, "endOffset"), _field(each, "latestOffset")) for each in sources]


def _field(source: Any, name: str) -> str | bytes:
    """A field of a source, as JSON, whether it is one of Spark's objects or a plain value."""
    value = source.get(name) if isinstance(source, dict) else getattr(source, name)
    return value if isinstance(value, str) else msgspec.json.encode(value)


def _source(end: str | bytes, latest: str | bytes) -> calls.SourceProgress | None:
    try:
        end_offsets = _OFFSETS.decode(end)
    except (ValueError, RecursionError):  # another source's
        return None
    try:
        lag = offsets_behind(end_offsets, _OFFSETS.decode(latest))
    except (ValueError, RecursionError):  # the event has no ends of logs
        lag = None
    return calls.SourceProgress(end_offsets, lag)
