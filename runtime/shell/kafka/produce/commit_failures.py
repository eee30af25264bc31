"""Why a batch of an exactly-once sink can't be committed, in words for the user: what it is about, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sparkcohort.runtime.kafka.batch_commit import BatchCommit, CommitFailure
from sparkcohort.runtime.kafka.decision import Committable, SinkDecision
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError
from sparkcohort.runtime.text import counted

MOST_NAMED: Final = 10


def commit_error(sink_id: str, state: BatchCommit) -> ProduceError:
    """What ``BatchCommit.failure`` means."""
    last = state.decision
    if state.failure is CommitFailure.PARTLY_COMMITTED and last is not None:
        return lost_error(sink_id, last, state.lost_committables)
    if state.failure is CommitFailure.OTHER_QUERY and last is not None:
        return other_query(sink_id, last, state.query)
    if state.failure is CommitFailure.OLDER_BATCH and last is not None:
        return older_batch(sink_id, last, state.batch)
    if state.failure is CommitFailure.TIMED_OUT:
        return ProduceError(
            f"batch {state.batch} of sink {sink_id} can't be committed: Kafka has ended, or is about to end, "
            f"{counted(len(state.lost_committables), 'transaction')} of its tasks ({_ranges(state.lost_committables)}); nothing of the "
            "batch is visible, and it is written again at the next start.  Either a newer driver of this query is running, or the batch takes longer than "
            "kafka.transaction.timeout.ms: raise it, or make batches smaller",
            "SINK_TRANSACTION_TIMED_OUT",
        )
    return ProduceError(
        f"batch {state.batch} of sink {sink_id} can't be committed: another driver of it has begun since, or the sink was reset; nothing "
        "of the batch is visible.  Is the query running twice, or is sink.id used by another one?",
        "SINK_OVERTAKEN",
    )


def other_query(sink_id: str, last: SinkDecision, query: str) -> ProduceError:
    """``sink.id`` is used by two queries, or the checkpoint was deleted."""
    return ProduceError(
        f"sink.id={sink_id} belongs to another query: batch {last.batch} was decided by {last.query}, and this is {query}.  Give each "
        "query a sink.id of its own.  If the checkpoint was deleted on purpose: cohort sink reset --sink-id "
        f"{sink_id} lets this query begin, and what it reads again is written again",
        "SINK_OF_OTHER_QUERY",
    )


def older_batch(sink_id: str, last: SinkDecision, batch: int) -> ProduceError:
    """The checkpoint is an older one, or a newer driver goes on."""
    return ProduceError(
        f"batch {batch} is behind what sink {sink_id} has decided: batch {last.batch}.  Either a newer driver of this query is running, and "
        "this one ends; or the checkpoint was restored from a copy: then batches up to "
        f"{last.batch} are in Kafka, and cohort sink reset --sink-id {sink_id} --batch {batch - 1} has them written once more",
        "SINK_BATCH_DECIDED",
    )


def lost_error(sink_id: str, decision: SinkDecision, committables: Iterable[Committable]) -> ProduceError:
    """Row 6 of docs/audit/exactly-once.md."""
    missing = tuple(committables)
    rows = sum(part.rows for each in missing for part in each.ranges)
    return ProduceError(
        f"batch {decision.batch} of sink {sink_id} was decided, and Kafka ended {counted(len(missing), 'transaction')} of "
        f"{len(decision.committables)} before a driver came back (kafka.transaction.timeout.ms): {counted(rows, 'row')} are missing, of "
        f"{_ranges(missing)}; the others are there.  Nothing is written before you choose.  To have the whole batch written again, those that "
        f"are there a second time: cohort sink reset --sink-id {sink_id} --batch {decision.batch - 1}; to go on without the missing rows: "
        f"cohort sink reset --sink-id {sink_id} --batch {decision.batch}",
        "SINK_PARTLY_COMMITTED",
    )


def too_many_ranges(sink_id: str, nbytes: int, most: int) -> ProduceError:
    """A decision that the topic can't hold."""
    return ProduceError(
        f"the decision of a batch of sink {sink_id} takes {nbytes:,} bytes, and {most:,} is the most: it names each partition that each task "
        "writes to; use fewer tasks (coalesce), or partition the rows as the topic is"
    )


def _ranges(committables: Iterable[Committable]) -> str:
    parts = [part for each in committables for part in each.ranges]
    words = [
        f"{part.topic}-{part.partition} offsets {part.first} to {part.last} ({part.rows})"
        for part in parts[:MOST_NAMED]
    ]
    more = f" and {len(parts) - MOST_NAMED} more" if len(parts) > MOST_NAMED else ""
    return ", ".join(words) + more if parts else "of unknown ranges"
