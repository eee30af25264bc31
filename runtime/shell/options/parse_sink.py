"""The options of a write, parsed: one frozen value, or one clear error naming the option and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.declaration import declared_options
from sparkcohort.runtime.shell.options.disallowed import kafka_names
from sparkcohort.runtime.shell.options.parse import is_topic_name, nearest_option
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings
from sparkcohort.runtime.shell.options.sink_options import SinkOptions
from sparkcohort.runtime.shell.options.table import BY_KEY, FAMILIES
from sparkcohort.runtime.shell.options.value_options import idle_registry, read_encodings
from sparkcohort.runtime.shell.options.values import Values

# DataStreamWriter hands its own options on to the sink.
_SPARKS_OWN: Final = ("checkpointlocation", "queryname", "asyncprogresstracking")
_EXACTLY_ONCE: Final = {name: each for name, each in declared_options(SinkOptions).items() if name != "topic"}


def parse_sink(options: Mapping[str, str]) -> SinkOptions:
    """Check and type the options of a write as Spark hands them over (keys in any case).

    Raises OptionError: one message that names the option and the remedy, never a secret's value.
    """
    texts = {key.lower(): str(value) for key, value in options.items() if not key.lower().startswith(_SPARKS_OWN)}
    for key in options:
        _check_option(key, texts)
    value = Values(texts)
    value.read(BY_KEY["includeheaders"])
    topic = value.text("topic")
    if "topic" in texts and not is_topic_name(topic):
        raise OptionError(
            f"option topic={topic!r} is no topic name (letters, digits, '.', '_', '-'): correct it, or leave it out where "
            "the column topic names each row's"
        )
    java = {key.removeprefix("kafka."): text for key, text in texts.items() if key.startswith("kafka.")}
    java["bootstrap.servers"] = value.read(BY_KEY["kafka.bootstrap.servers"])
    java.setdefault("client.id", "cohort")
    key_encoding, value_encoding = read_encodings(value, texts)
    producer = ProducerSettings.parse(java)
    own = {name: value.read(each) for name, each in _EXACTLY_ONCE.items()}
    if own["guarantee"] == "exactly-once":
        _check_exactly_once(own, producer)
    elif idle := [each.name for name, each in _EXACTLY_ONCE.items() if name != "guarantee" and each.name in texts]:
        raise OptionError(f"option {idle[0]} needs delivery.guarantee=exactly-once: set it, or leave {idle[0]} out")
    return SinkOptions(
        topic=topic,
        **own,
        key=key_encoding,
        value=value_encoding,
        producer=producer,
        kafka_names=kafka_names(texts),
        warnings=tuple(idle_registry(texts, key_encoding.records, value_encoding.records)),
    )


def _check_exactly_once(own: Mapping[str, Any], producer: ProducerSettings) -> None:
    """Raises OptionError for what can't be had together with exactly once."""
    guarantee = "delivery.guarantee=exactly-once"
    if not own["sink_id"]:
        raise OptionError(
            f"option sink.id is missing: {guarantee} wants a name that no other query has, and that stays the same at each start"
        )
    for name in ("sink_id", "state_topic"):
        if not is_topic_name(own[name]):
            raise OptionError(
                f"option {_EXACTLY_ONCE[name].name}={own[name]!r} is not valid: letters, digits, '.', '_', '-', 249 at most"
            )
    if bool(own["app_id"]) != (own["app_version"] is not None):
        raise OptionError("options txn.app.id and txn.version go together: set both, or leave both out")
    if not producer.idempotent:
        raise OptionError(f"option {guarantee} wants kafka.acks=all and kafka.enable.idempotence=true: leave both out")
    if producer.librdkafka_reason:
        raise OptionError(
            f"option {guarantee} is not supported with this login: {producer.librdkafka_reason}; use at-least-once"
        )


def _check_option(name: str, texts: Mapping[str, str]) -> None:
    """Raises OptionError for an option that no write takes."""
    key = name.lower()
    option = BY_KEY.get(key)
    is_of_family = option is None and key.startswith(("kafka.", *FAMILIES))
    if key not in texts or is_of_family or (option is not None and option.writes):
        return
    if option is None:
        raise OptionError(f"option {name} is unknown{nearest_option(key, writes=True)}")
    if option.status == "refused":
        raise OptionError(f"option {option.name} is not supported: {option.instead}")
    raise OptionError(
        f"option {option.name} is for reads only: leave it out; docs/options.md says which options a write takes"
    )
