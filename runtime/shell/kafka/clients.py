"""Making Kafka clients for the driver: settings, log lines, and librdkafka's errors in words for the user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.membership_state import Committed
from sparkcohort.runtime.protocol.offsets_json import LATEST
from sparkcohort.runtime.shell.kafka import client_log
from sparkcohort.runtime.shell.kafka.token_provider import NoToken
from sparkcohort.runtime.shell.kafka.tokens import with_tokens
from sparkcohort.runtime.shell.options.certificate_files import with_trusted_certificates
from sparkcohort.runtime.shell.options.client_defaults import DRIVER, DRIVER_CONSUMERS, DRIVER_FORCED
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, UNKNOWN
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.text import printable

log = client_log.log

CONNECT_S = 0.3
"""Patience of ``connect``: a broker that is farther away is waited for by the request that comes after it."""
Errors = Callable[[KafkaError], None]


def new_consumer(conf: Mapping[str, str], on_error: Errors | None = None, **more: Any) -> Consumer:
    """A consumer that never fetches by itself; its log lines go to the logger ``sparkcohort.kafka`` when it is polled.

    ``conf`` is librdkafka's (``SourceOptions.kafka``) and wins over our defaults; ``more`` wins over both, and what the table forces over all.
    Raises CohortError.
    """
    settings: dict[str, Any] = {"group.id": "cohort", **DRIVER_CONSUMERS, **conf, **more, **DRIVER_FORCED}
    if on_error is not None:
        settings["error_cb"] = on_error
    try:
        return Consumer(with_trusted_certificates(with_tokens(settings)), logger=log)
    except ValueError as error:  # of a trust store
        raise CohortError(f"the Kafka client cannot be made: {error}") from None
    except KafkaException as error:
        raise CohortError(f"the Kafka client cannot be made: {redact_text(text_of(error), conf)}") from None


def with_credentials(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a provider's tokens and the certificates of a trust store.  Raises KafkaException."""
    try:
        return with_trusted_certificates(with_tokens(settings))
    except NoToken as error:
        raise KafkaException(KafkaError(KafkaError._AUTHENTICATION, str(error))) from None
    except ValueError as error:  # of a trust store
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, str(error))) from None


def new_admin(conf: Mapping[str, str]) -> AdminClient:
    """An administrator with the same settings, less those of consumers.  Raises KafkaException."""
    settings = {
        **DRIVER,
        **{name: value for name, value in conf.items() if not ROWS.get(name, UNKNOWN).consumers_only},
    }
    try:
        return AdminClient(with_credentials(settings), logger=log)
    except KafkaException as error:  # which may quote a setting: redacted here, for every caller
        text = redact_text(str(inner.str() if (inner := error_of(error)) is not None else error), conf)
        raise KafkaException(KafkaError(code_of(error), text)) from None


def connect(client: Consumer, topic: str | None) -> None:
    """Have a new client connect to a broker now: the leader of this topic's first partition; errors come with the first request.

    librdkafka (2.16) leaves the bootstrap connection as soon as it knows the brokers, and lets half of reconnect.backoff.ms
    pass before it connects to *any* of them: a request for metadata or for the group coordinator waits half a second.
    What is asked of one broker connects at once.
    """
    if topic is None:
        return
    with suppress(KafkaException):
        client.offsets_for_times([Position(topic, 0, LATEST)], timeout=CONNECT_S)


def error_of(error: KafkaException) -> KafkaError | None:
    """The KafkaError inside an exception of confluent_kafka."""
    first = error.args[0] if error.args else None
    return first if isinstance(first, KafkaError) else None


def code_of(error: KafkaException) -> int:
    """librdkafka's error code; -1 (unknown) where there is none."""
    inner = error_of(error)
    return inner.code() if inner is not None else KafkaError.UNKNOWN


def text_of(error: KafkaException | KafkaError | TimeoutError) -> str:
    """The error in librdkafka's words; a future's TimeoutError has none of its own."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    inner = error_of(error) if isinstance(error, KafkaException) else error
    # Not cut here: redaction has to find secrets whole.
    return printable(f"{inner.name()}: {inner.str()}" if inner is not None else str(error), 1 << 20)


def epoch_of(position: Position) -> int:
    """The leader epoch beside an offset; -1 where there is none, which confluent-kafka's stubs don't know of."""
    epoch = getattr(position, "leader_epoch", None)
    return -1 if epoch is None else int(epoch)


def topics_with(error: KafkaError, answers: Iterable[Position]) -> set[str]:
    """The topics of the partitions with the same error."""
    return {each.topic for each in answers if each.error is not None and each.error.code() == error.code()}


def committed_of(answer: Position) -> Committed:
    """What the group coordinator says of one partition."""
    return Committed(answer.offset if answer.offset >= 0 else None, answer.metadata or "", epoch_of(answer))
