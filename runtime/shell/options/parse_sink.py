"""The options of a write, parsed: one frozen value, or one clear error naming the option and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.disallowed import kafka_names
from sparkcohort.runtime.shell.options.parse import is_topic_name, nearest_option
from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings
from sparkcohort.runtime.shell.options.sink_options import SinkOptions
from sparkcohort.runtime.shell.options.table import BY_KEY, FAMILIES
from sparkcohort.runtime.shell.options.value_options import idle_registry, read_encodings
from sparkcohort.runtime.shell.options.values import Values

# DataStreamWriter hands its own options on to the sink.
_SPARKS_OWN: Final = ("checkpointlocation", "queryname", "asyncprogresstracking")


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
    return SinkOptions(
        topic=topic,
        key=key_encoding,
        value=value_encoding,
        producer=ProducerSettings.parse(java),
        kafka_names=kafka_names(texts),
        warnings=tuple(idle_registry(texts, key_encoding.records, value_encoding.records)),
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
