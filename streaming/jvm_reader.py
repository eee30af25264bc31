"""The reader in the JVM as the driver's Python knows it: whether Spark has the jar, and what that says."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sparkcohort.runtime.batches.offsets_behind import as_metrics, summary
from sparkcohort.runtime.errors import OptionError
from sparkcohort.streaming.session_zone import check_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparkcohort.runtime.shell.options.source_options import SourceOptions

_REMEDY: Final = "sparkcohort.register(spark), or spark.jars with what `cohort jar` prints, brings it"


class _JarReport(msgspec.Struct, frozen=True):
    """What the jar says through option ``reader.jar`` (ReaderOption.java): its version, and the session's settings."""

    version: str
    session: dict[str, str]


_REPORT: Final = msgspec.json.Decoder(_JarReport)


def check_reader(options: SourceOptions) -> str:
    """Which reader gives the rows to Spark, and why, in words for the log.

    Raises OptionError where it isn't the one that is asked for, where the jar is of another version, and for what this session
    disallows: a task in the JVM doesn't check it.
    """
    if not options.reader_jar:
        if options.reader == "python":
            return "Python workers read the agents' rows (reader=python)"
        if options.reader == "jvm":
            raise OptionError(f"option reader=jvm: Spark does not know Cohort's jar; {_REMEDY}")
        return f"Python workers read the agents' rows, since Spark does not know Cohort's jar; {_REMEDY}"
    try:
        report = _REPORT.decode(options.reader_jar)
    except msgspec.MsgspecError:
        raise OptionError("option reader.jar is for Cohort's jar, which sets it: leave it out") from None
    if report.version != (ours := metadata.version("sparkcohort")):
        raise OptionError(
            f"Cohort's jar in Spark is of version {report.version!r}, this Python's Cohort of {ours} ({sys.executable}): "
            f"take the jar of this version; {_REMEDY}"
        )
    check_session(options, report.session.get)
    return "the JVM reads the agents' rows"


def progress_report(
    ends: object, lags: Sequence[int], partitions_held: int, seconds_behind: float | None, page: tuple[str, str]
) -> dict[str, Any]:
    """What the jar takes apart (CohortStream.java, ``reportLatestOffset``).

    The logs' ends and metrics are for Spark's progress event, ``page`` is for the tab in Spark's UI: the group, and the address
    of its live page ("" without one).
    """
    metrics = as_metrics(summary(lags)) | {"partitionsHeld": str(partitions_held)}
    if seconds_behind is not None:
        metrics["maxSecondsBehindLatest"] = str(seconds_behind)
    return {"ends": ends, "metrics": metrics, "group": page[0], "page": page[1]}
