"""The producer's half of the table of Kafka's settings: ``kafka.*`` options of a sink, to one frozen value.

``kafka_settings`` has the rows of connections and logins, which are the same for both; here is what only a producer has.
Sources: Kafka's ``ProducerConfig``; librdkafka's CONFIGURATION.md for the names that mean the same there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.connection_settings import unsupported
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, value_of
from sparkcohort.runtime.shell.options.kafka_translate import translate

_MOST: Final = 2**31 - 1
LARGEST_BATCH: Final = 1 << 30


class ProducerOption(NamedTuple):
    """A producer's setting that is a whole number: default and bounds, both taken."""

    default: int
    least: int
    most: int


NUMBERS: Final[Mapping[str, ProducerOption]] = {
    "batch.size": ProducerOption(256 << 10, 0, LARGEST_BATCH),
    "buffer.memory": ProducerOption(32 << 20, 1, 2**63 - 1),
    "compression.gzip.level": ProducerOption(-1, -1, 9),
    "compression.lz4.level": ProducerOption(-1, -1, 17),
    "compression.zstd.level": ProducerOption(3, -131072, 22),
    "delivery.timeout.ms": ProducerOption(120_000, 1, _MOST),
    "linger.ms": ProducerOption(50, 0, _MOST),
    "max.block.ms": ProducerOption(60_000, 0, _MOST),
    "max.in.flight.requests.per.connection": ProducerOption(5, 1, _MOST),
    "max.request.size": ProducerOption(1 << 20, 1, LARGEST_BATCH),
    "request.timeout.ms": ProducerOption(30_000, 1, _MOST),
    "retries": ProducerOption(_MOST, 0, _MOST),
    "retry.backoff.max.ms": ProducerOption(1_000, 0, _MOST),
    "retry.backoff.ms": ProducerOption(100, 0, _MOST),
    "transaction.timeout.ms": ProducerOption(900_000, 1, _MOST),
}
"""Kafka's defaults, but for larger batches and a longer linger: a flush ends it, and it costs no latency here; and for transactions
that may stay open for as long as brokers allow by default (``transaction.max.timeout.ms``), since they last as long as a batch."""

WORDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "acks": {"all": -1, "-1": -1, "1": 1},
    "compression.type": {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4},
    "enable.idempotence": {"true": True, "false": False},
}
"""Values with what they become, the default first (of ``enable.idempotence``: as ``acks`` allows it)."""

ALIASES: Final[Mapping[str, str]] = {
    "compression.codec": "compression.type",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "socket.timeout.ms": "request.timeout.ms",
}
"""librdkafka's names of the same."""

_PARTITIONERS: Final = "rows go to partitions by the column partition, else as by Java's default; leave it out"
_TRANSACTIONS: Final = "each task has transactional ids of its own, which begin with sink.id (delivery.guarantee=exactly-once); leave it out"
_BYTES: Final = "keys and values are bytes; encode them with DataFrame operations"
REFUSALS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "enable.gapless.guarantee": (
        "a batch that fails ends the write, so there is no gap; leave it out",
        ("true", "false"),
    ),
    "key.serializer": (_BYTES, ()),
    "partitioner": (_PARTITIONERS, ("murmur2_random",)),
    "partitioner.class": (_PARTITIONERS, ("", "org.apache.kafka.clients.producer.internals.defaultpartitioner")),
    "partitioner.ignore.keys": (_PARTITIONERS, ("false",)),
    "transaction.two.phase.commit.enable": (_TRANSACTIONS, ("false",)),
    "transactional.id": (_TRANSACTIONS, ("",)),
    "value.serializer": (_BYTES, ()),
}
"""Refused, with what to do instead, unless it has one of these values, which ask for what is done anyway."""

_OWN_QUEUE: Final = "it is about librdkafka's queue; see kafka.buffer.memory and kafka.batch.size"
_CONSUMERS: Final = "it is a consumer's setting"
IDLE: Final[Mapping[str, str]] = {
    "batch.num.messages": _OWN_QUEUE,
    "compression.level": "each codec has its own; see kafka.compression.zstd.level and its like",
    "delivery.report.only.error": _OWN_QUEUE,
    "metadata.max.idle.ms": "a topic is known for as long as the producer lives",
    "partitioner.adaptive.partitioning.enable": "rows without key are spread evenly",
    "partitioner.availability.timeout.ms": "rows without key are spread evenly",
    "queue.buffering.backpressure.threshold": _OWN_QUEUE,
    "queue.buffering.max.kbytes": _OWN_QUEUE,
    "queue.buffering.max.messages": _OWN_QUEUE,
    "sticky.partitioning.linger.ms": _OWN_QUEUE,
    **dict.fromkeys(
        (
            "auto.commit.interval.ms", "auto.offset.reset", "enable.auto.commit", "group.id", "group.instance.id",
            "group.protocol", "heartbeat.interval.ms", "max.poll.interval.ms", "max.poll.records",
            "partition.assignment.strategy", "session.timeout.ms", "fetch.max.wait.ms",
            *(name for name, row in ROWS.items() if row.consumers_only),
        ),
        _CONSUMERS,
    ),
}  # fmt: skip
"""Without effect, and why."""


@dataclass(frozen=True)
class ProducerSettings:
    """A producer's settings; ``connection`` is librdkafka's, of connections and logins, with ``bootstrap.servers``."""

    connection: Mapping[str, str] = field(repr=False)
    acks: int = -1
    idempotent: bool = True
    codec: int = 0
    level: int | None = None  # of the codec; None: its own
    batch_bytes: int = 0
    buffer_bytes: int = 0
    request_bytes: int = 0  # ``max.request.size``
    in_flight: int = 0  # requests to a broker
    retries: int = 0
    linger_s: float = 0.0
    block_s: float = 0.0
    delivery_s: float = 0.0
    request_s: float = 0.0
    backoff_s: float = 0.0
    most_backoff_s: float = 0.0
    metadata_age_s: float = 0.0
    transaction_ms: int = 0  # ``transaction.timeout.ms``
    warnings: tuple[str, ...] = ()

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """The value of ``kafka.*`` options, given without the prefix.  Raises OptionError, which names the option."""
        producer_options, connection_options, warnings = _sort_options(options)
        connection, more = translate(connection_options)
        connection.pop("isolation.level", None)
        numbers = {name: _number(name, producer_options.get(name), row) for name, row in NUMBERS.items()}
        codec = _word("compression.type", producer_options)
        acks = _word("acks", producer_options)
        idempotent = (
            _word("enable.idempotence", producer_options) if "enable.idempotence" in producer_options else acks == -1
        )
        if idempotent and acks != -1:
            raise OptionError("option kafka.acks=1 does not go with kafka.enable.idempotence=true: leave one out")
        _check_times(producer_options, numbers)
        level = numbers.get(f"compression.{('', 'gzip', '', 'lz4', 'zstd')[codec]}.level", -1)
        seconds = {name: numbers[f"{name}.ms"] / 1000 for name in _TIMES}
        return cls(
            connection=connection, acks=acks, idempotent=idempotent, codec=codec, level=None if level == -1 else level,
            batch_bytes=numbers["batch.size"], buffer_bytes=numbers["buffer.memory"],
            request_bytes=numbers["max.request.size"], in_flight=numbers["max.in.flight.requests.per.connection"],
            retries=numbers["retries"], linger_s=seconds["linger"], block_s=seconds["max.block"],
            delivery_s=seconds["delivery.timeout"], request_s=seconds["request.timeout"],
            backoff_s=seconds["retry.backoff"], most_backoff_s=seconds["retry.backoff.max"],
            metadata_age_s=int(connection.get("metadata.max.age.ms") or value_of(connection, "topic.metadata.refresh.interval.ms")) / 1000,
            transaction_ms=numbers["transaction.timeout.ms"], warnings=(*warnings, *more),
        )  # fmt: skip

    @property
    def librdkafka_reason(self) -> str:
        """Why only librdkafka can log in with these settings; "" when our own client can."""
        return unsupported(self.connection)


_TIMES: Final = ("linger", "max.block", "delivery.timeout", "request.timeout", "retry.backoff", "retry.backoff.max")


def _sort_options(options: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """The producer's own options by Kafka's names, those of connections, and warnings of options without effect."""
    producer_options: dict[str, str] = {}
    connection_options: dict[str, str] = {}
    warnings: list[str] = []
    for alias, value in options.items():
        name = ALIASES.get(alias, alias)
        if name in REFUSALS:
            reason, harmless = REFUSALS[name]
            if value.strip().lower() not in harmless:
                raise OptionError(f"option kafka.{alias} is not supported: {reason}")
        elif name in IDLE:
            warnings.append(f"option kafka.{alias} has no effect: {IDLE[name]}")
        elif name not in NUMBERS and name not in WORDS:
            connection_options[alias] = value
        elif producer_options.setdefault(name, value) != value:
            raise OptionError(f"options kafka.{alias} and kafka.{name} mean the same and differ: leave one out")
    return producer_options, connection_options, warnings


def _word(name: str, producer_options: Mapping[str, str]) -> Any:
    values = WORDS[name]
    text = producer_options.get(name, "none" if name == "compression.type" else next(iter(values))).strip().lower()
    if name == "acks" and text == "0":
        raise OptionError(
            "option kafka.acks=0 is not supported: a write that is lost would not be noticed; use all or 1"
        )
    if text not in values:
        raise OptionError(f"option kafka.{name}={producer_options[name]} is none of {', '.join(values)}")
    return values[text]


def _number(name: str, text: str | None, row: ProducerOption) -> int:
    if text is None:
        return row.default
    digits = text.strip().lstrip("+-")
    number = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
    if number is None or not row.least <= number <= row.most:
        raise OptionError(f"option kafka.{name}={text} is out of bounds: whole numbers, {row.least} to {row.most}")
    return number


def _check_times(producer_options: Mapping[str, str], numbers: Mapping[str, int]) -> None:
    """As ``KafkaProducer.configureDeliveryTimeout``: a request has to have its time."""
    least = numbers["linger.ms"] + numbers["request.timeout.ms"]
    if numbers["delivery.timeout.ms"] < least and "delivery.timeout.ms" in producer_options:
        raise OptionError(
            f"option kafka.delivery.timeout.ms={numbers['delivery.timeout.ms']} is less than kafka.linger.ms and "
            f"kafka.request.timeout.ms together ({least}): raise it, or lower one of them"
        )
