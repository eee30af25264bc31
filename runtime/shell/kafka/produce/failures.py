"""Why rows can't be written, in words for the user: each names topic and partition, the option or resource, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from confluent_kafka import KafkaError

from sparkcohort.native import _native
from sparkcohort.runtime.kafka.produce_progress import (
    CLUSTER_DENIED,
    MESSAGE_TOO_LARGE,
    RECORD_LIST_TOO_LARGE,
    TOPIC_DENIED,
    UNKNOWN_TOPIC,
)
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka.produce.produce_report import ProduceError

INVALID_TOPIC: Final = 17
TIMEOUT_TOO_LONG, TRANSACTION_DENIED = 50, 53
_REMEDIES: Final[Mapping[int, str]] = {
    CLUSTER_DENIED: (
        "this user may not get a producer id: allow it WRITE on the topic, or (before Kafka 2.8) IDEMPOTENT_WRITE on the cluster "
        "(kafka-acls --add --operation IdempotentWrite --cluster), or set kafka.enable.idempotence=false"
    ),
    UNKNOWN_TOPIC: "there is no such topic: create it, or correct the name",
    INVALID_TOPIC: "this can't be a topic's name: letters, digits, dots, dashes and underscores, 249 at most",
    **dict.fromkeys(
        (19, 20), "too few replicas are in sync: see the topic's min.insync.replicas, and which brokers are away"
    ),
    32: "a timestamp is out of bounds: see the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    43: "brokers store older formats of this topic: see its message.format.version",
    44: "the broker's policy refuses it",
    76: "the broker doesn't know the codec: see kafka.compression.type",
    87: "the broker refuses a record: a compacted topic wants a key in each row",
}


def error_name(code: int) -> str:
    """Kafka's name of an error."""
    return KafkaError(code).name() if code > 0 else ""


def missing_topic_error() -> ProduceError:
    """A row that names no topic."""
    return ProduceError("a row has no topic: set the option topic, or the column topic in each row")


def topic_denied_error(topic: str) -> ProduceError:
    """No permission to write."""
    return ProduceError(
        f"no permission to write to topic {topic}: allow this user WRITE and DESCRIBE on Topic:{topic} "
        f"(kafka-acls --add --operation Write --operation Describe --topic {topic})",
        "TOPIC_AUTHORIZATION_FAILED",
    )


def refused_id(code: int) -> ProduceError:
    """No broker gives this user a producer id."""
    remedy = _REMEDIES.get(code, "see the broker's log, or set kafka.enable.idempotence=false")
    return ProduceError(f"no producer id (kafka.enable.idempotence): {remedy}", error_name(code))


def refused_transaction(name: str, code: int, timeout_ms: int = 0) -> ProduceError:
    """The coordinator refuses a transactional id, or what is to be done with its transaction."""
    if code == TRANSACTION_DENIED:
        return ProduceError(
            f"no permission on transactional id {name}: allow this user WRITE and DESCRIBE on it and on all that begin with the sink.id "
            "(kafka-acls --add --operation Write --operation Describe --transactional-id SINK_ID --resource-pattern-type prefixed)",
            error_name(code),
        )
    if code == TIMEOUT_TOO_LONG:
        return ProduceError(
            f"option kafka.transaction.timeout.ms={timeout_ms} is more than the brokers allow (transaction.max.timeout.ms): lower it",
            error_name(code),
        )
    if code == TOPIC_DENIED:
        return ProduceError(
            "no permission to write to a topic of the transaction: allow this user WRITE and DESCRIBE on each topic of the rows, and "
            "on that of sink.state.topic",
            error_name(code),
        )
    return ProduceError(
        f"the transaction of {name} is no longer this task's: its time was over (kafka.transaction.timeout.ms), or a newer one has "
        "taken its place; the batch is tried again",
        error_name(code),
    )


def silent_coordinator(name: str, waited_s: float, words: str) -> ProduceError:
    """No broker answers for a transactional id."""
    return ProduceError(
        f"no transaction coordinator answers for {name} within {waited_s:g} s (kafka.max.block.ms)"
        f"{'; last: ' + words if words else ''}; are the brokers up, and is __transaction_state in sync?",
        "COORDINATOR_NOT_AVAILABLE",
    )


def too_old_for_transactions(error: Exception) -> ProduceError:
    """A broker lacks a request."""
    return ProduceError(f"{error}: delivery.guarantee=exactly-once wants brokers of Kafka 3.0 or newer")


def topic_error(topic: str, code: int, waited_s: float, cause: Exception | None) -> ProduceError:
    """The cluster has no leader of this topic to write to."""
    if code == TOPIC_DENIED:
        return topic_denied_error(topic)
    if not code and cause is not None:
        return ProduceError(f"no partitions of topic {topic} within {waited_s:g} s (kafka.max.block.ms): {cause}")
    words = _REMEDIES.get(code, "no broker leads it")
    return ProduceError(
        f"topic {topic} can't be written to, within {waited_s:g} s (kafka.max.block.ms): {words}", error_name(code)
    )


def refused_batch(tp: TopicPartition, code: int, words: str, nbytes: int) -> ProduceError:
    """A broker refuses a batch for good."""
    if code == TOPIC_DENIED:
        return topic_denied_error(tp.topic)
    if code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE):
        return ProduceError(
            f"a row for topic {tp.topic} partition {tp.partition} takes {nbytes} bytes in a batch of its own, and the broker allows less: "
            "raise the topic's max.message.bytes (of all topics: message.max.bytes of the brokers), or make the row smaller",
            error_name(code),
        )
    broker_words = f" ({words})" if words else ""
    remedy = _REMEDIES.get(code, "see the broker's log")
    return ProduceError(
        f"a batch for topic {tp.topic} partition {tp.partition} was refused{broker_words}: {remedy}", error_name(code)
    )


def expired_batch(tp: TopicPartition, code: int, attempts: int, delivery_s: float, cause: str) -> ProduceError:
    """A batch was not acknowledged in time."""
    last = "; ".join(filter(None, (_REMEDIES.get(code, error_name(code)), cause)))
    reason = f"; last: {last}" if last else "; are the brokers up, and do they let this user in?"
    return ProduceError(
        f"a batch for topic {tp.topic} partition {tp.partition} was not acknowledged within {delivery_s:g} s "
        f"(kafka.delivery.timeout.ms, kafka.retries), after {attempts} attempts{reason}",
        error_name(code) or "REQUEST_TIMED_OUT",
    )


def refused_row(
    rows: pa.RecordBatch, row: int, reason: int, number: int, topic: str, counts: int, limit: int
) -> ProduceError:
    """A row that no batch can hold; ``counts``: the topic's partitions."""
    key = rows.column("key")[row].as_buffer()
    key_words = "without key" if key is None else f"with a key of murmur2 {_native.murmur2(key)}"
    place = rows.column("partition")[row].as_py()
    if place is None and key is not None and counts:
        place = (_native.murmur2(key) & 0x7FFFFFFF) % counts
    subject = f"a row for topic {topic}{'' if place is None else f' partition {place}'}, {key_words},"
    if reason == _native.REFUSED_SIZE:
        return ProduceError(
            f"{subject} takes {number} bytes, and kafka.max.request.size={limit} allows less: raise it, and the topic's "
            "max.message.bytes with it, or make the row smaller",
            "RECORD_TOO_LARGE",
        )
    if reason == _native.REFUSED_PARTITION:
        return ProduceError(f"{subject} has no place: the topic has {counts} partitions; see the column partition")
    if reason == _native.REFUSED_TIMESTAMP:
        return ProduceError(f"{subject} has the timestamp {number} ms, before 1970: see the column timestamp")
    if reason == _native.REFUSED_HEADER:
        return ProduceError(f"{subject} has a header without key: see the column headers")
    return missing_topic_error()
