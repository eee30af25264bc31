"""Kafka's errors in words for the user: each names the option or the resource, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from confluent_kafka import KafkaError

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.kafka.clients import text_of
from sparkcohort.runtime.shell.kafka.tokens import failure_of
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.text import printable

AUTHENTICATION = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL})
MOST_NAMED = 10
GROUP_DENIED = KafkaError.GROUP_AUTHORIZATION_FAILED
TOPIC_DENIED = KafkaError.TOPIC_AUTHORIZATION_FAILED


def group_denied(group: str) -> CohortError:
    """No permission on the group."""
    return CohortError(
        f"no permission on group {group}: allow this user READ and DESCRIBE on Group:{group} "
        f"(kafka-acls --add --operation Read --operation Describe --group {group})",
        "GROUP_AUTHORIZATION_FAILED",
    )


def topic_denied(topics: Iterable[str]) -> CohortError:
    """No permission on topics."""
    names = sorted({printable(topic) for topic in topics})
    text, flags = ", ".join(names[:MOST_NAMED]), " ".join(f"--topic {name}" for name in names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return CohortError(
        f"no permission on topic {text}{more}: allow this user READ and DESCRIBE on Topic:{text}{more} "
        f"(kafka-acls --add --operation Read --operation Describe {flags})",
        "TOPIC_AUTHORIZATION_FAILED",
    )


def unauthenticated(conf: Mapping[str, str], text: str) -> CohortError:
    """The login failed: refused by the brokers, or by us, or without a token."""
    failure = failure_of(conf)
    if failure is not None:
        return CohortError(f"no login to {conf.get('bootstrap.servers', '')}: {failure}", failure.error)
    protocol = conf.get("security.protocol", "plaintext")
    return CohortError(
        f"authentication with {conf.get('bootstrap.servers', '')} failed (kafka.security.protocol={protocol}): "
        f"{redact_text(text, conf)}; "
        "check the kafka.sasl.* and kafka.ssl.* options",
        "SASL_AUTHENTICATION_FAILED",
    )


def unreachable_error(conf: Mapping[str, str], limit_ms: int, text: str) -> CohortError:
    """No broker answered in time."""
    reason = f"; last: {redact_text(text, conf)}" if text else ""
    return CohortError(
        f"no broker of kafka.bootstrap.servers={conf.get('bootstrap.servers', '')} answered within {limit_ms} ms "
        f"(kafka.default.api.timeout.ms){reason}; check the address, the network and kafka.security.protocol"
    )


def join_failure(options: SourceOptions, waited_s: float, members: list[str]) -> CohortError:
    """The group coordinator did not let us in, and did not say why."""
    hint = f"; also in it: {', '.join(members)}" if members else "; is its coordinator up?"
    return CohortError(
        f"group {options.group_id} could not be joined within {waited_s:g} s (kafka.default.api.timeout.ms){hint}"
    )


def permanent(
    error: KafkaError, options: SourceOptions, members: Callable[[], list[str]], topics: Collection[str] = ()
) -> CohortError | None:
    """The errors of a membership that waiting does not cure.

    ``members`` names the other members of the group; ``topics`` are those that the error is about, as far as it is known.
    """
    code, group = error.code(), options.group_id
    if code in AUTHENTICATION:
        return unauthenticated(options.kafka, text_of(error))
    if code == GROUP_DENIED:
        return group_denied(group)
    if code == TOPIC_DENIED:
        return topic_denied(topics or [options.subscription.name()])
    text = _refusals(options, members).get(code, lambda: "")()
    return CohortError(text, error.name()) if text else None


def _refusals(options: SourceOptions, members: Callable[[], list[str]]) -> Mapping[int, Callable[[], str]]:
    group = options.group_id
    return {
        KafkaError.INVALID_SESSION_TIMEOUT: lambda: (
            f"option session.timeout.ms={options.session_timeout_ms} is outside what the broker allows "
            "(group.min.session.timeout.ms to group.max.session.timeout.ms): change one of them"
        ),
        KafkaError.INCONSISTENT_GROUP_PROTOCOL: lambda: (
            f"group {group} is used with another assignor by {', '.join(members()) or 'other consumers'}: stop "
            "them, or "
            "give this query a group.id of its own"
        ),
        KafkaError.GROUP_MAX_SIZE_REACHED: lambda: (
            f"group {group} is full (group.max.size of the broker): give this query a group.id of its own"
        ),
        KafkaError.INVALID_GROUP_ID: lambda: f"option group.id={group!r} is not a valid name of a group",
    }
