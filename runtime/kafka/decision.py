"""What a sink has decided: the record that makes a batch visible whole, once.

The tasks of a batch leave their transactions open.  The driver writes which of them count, the *decision*, into the compacted topic
of ``sink.state.topic`` under the sink's id; then it commits them.  Whoever finds a decision can commit its transactions again: that
changes nothing (``TransactionCoordinator.endTransaction`` answers NONE in CompleteCommit).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from sparkcohort.runtime.kafka.produce_messages import ProducerId

FORMAT: Final = 1
MOST_BYTES: Final = 900_000
"""Of a decision as it is written: a topic's max.message.bytes is a megabyte as a rule."""


TASK_SEPARATOR: Final = "/"
"""Between a sink's id and what a worker adds to it; the id alone is the control id, which decides."""


class SinkTransaction(NamedTuple):
    """A transaction: its id, and the producer's id and epoch, which no other transaction of this id has."""

    name: str
    producer: ProducerId


class WrittenRange(NamedTuple):
    """What a transaction wrote to one partition: the first and last offset (others' records may lie between them), and its rows."""

    topic: str
    partition: int
    first: int
    last: int
    rows: int


class Committable(NamedTuple):
    """A task's transaction with all its rows acknowledged, and open (the name is Flink's)."""

    transaction: SinkTransaction
    ranges: tuple[WrittenRange, ...]


@dataclass(frozen=True, slots=True)
class SinkDecision:
    """The last batch that a sink has decided; ``query`` is Spark's query id, or ``txn.app.id``, "" of a sink that has decided nothing.

    ``run`` is the start that may decide next: each start of a driver has one of its own.  ``committables`` are just those that count.
    Those of batch n are committed before batch n + 1 is decided.
    """

    query: str
    batch: int
    committables: tuple[Committable, ...] = ()
    run: str = ""


class MalformedDecision(ValueError):
    """A record of the topic that is no decision, or one of a newer version."""


def encode_decision(decision: SinkDecision) -> bytes:
    """The record's value."""
    return json.dumps(
        {
            "format": FORMAT,
            "run": decision.run,
            "query": decision.query,
            "batch": decision.batch,
            "transactions": [
                {
                    "id": each.transaction.name,
                    "producer": list(each.transaction.producer),
                    "ranges": [list(part) for part in each.ranges],
                }
                for each in decision.committables
            ],
        },
        separators=(",", ":"),
    ).encode()


def decode_decision(value: bytes) -> SinkDecision:
    """Read a record's value.  Raises MalformedDecision.

    >>> one = SinkDecision("q", 3, (Committable(SinkTransaction("s/a", ProducerId(7, 0)), (WrittenRange("t", 0, 5, 6, 2),)),))
    >>> decode_decision(encode_decision(one)) == one
    True
    """
    try:
        fields = json.loads(value)
        if type(fields["format"]) is int and fields["format"] > FORMAT:
            raise MalformedDecision(f"its format is newer than {FORMAT}, which this version of Cohort knows")
        if fields["format"] != FORMAT:
            raise ValueError  # noqa: TRY301  as whatever else is none
        transactions = tuple(map(_committable, fields["transactions"]))
        run, query = _text(fields["run"]), _text(fields["query"])
        return SinkDecision(query, _number(fields["batch"], 64), transactions, run)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise (
            error if isinstance(error, MalformedDecision) else MalformedDecision("it is no decision of a sink")
        ) from None


def joined_decision(parts: Sequence[bytes]) -> SinkDecision:
    """The decision for a whole batch from those of its tasks.  Raises MalformedDecision."""
    decisions = [decode_decision(part) for part in parts]
    committables = tuple(each for decision in decisions for each in decision.committables)
    return replace(decisions[0], committables=committables)


def _committable(fields: Mapping[str, Any]) -> Committable:
    producer_id, epoch = fields["producer"]
    producer = ProducerId(_number(producer_id, 64), _number(epoch, 16))
    ranges = tuple(
        WrittenRange(_text(topic), _number(partition, 32), *(_number(number, 64) for number in numbers))
        for topic, partition, *numbers in fields["ranges"]
    )
    return Committable(SinkTransaction(_text(fields["id"]), producer), ranges)


def _text(value: Any) -> str:
    """A text as Kafka's protocol can have it: whole characters, up to the bytes that its length of 16 bits can tell."""
    if type(value) is not str or len(value.encode()) >= 1 << 15:
        raise ValueError
    return value


def _number(value: Any, bits: int) -> int:
    """A signed number of so many bits; JSON's have no bound."""
    if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError
    return value
