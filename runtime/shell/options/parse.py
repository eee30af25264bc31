"""The source's options, parsed: one frozen value, or one clear error naming the option and what to do."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.protocol.offsets_json import MAX_PARTITION
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.options.assignor_names import assignor_names
from sparkcohort.runtime.shell.options.declaration import Reads, declared_options
from sparkcohort.runtime.shell.options.disallowed import kafka_names
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, Fate
from sparkcohort.runtime.shell.options.kafka_translate import translate
from sparkcohort.runtime.shell.options.offset_checks import check_batch
from sparkcohort.runtime.shell.options.source_options import LOAD_BALANCED, SourceOptions, SourceSubscription
from sparkcohort.runtime.shell.options.table import BY_KEY, FAMILIES, KAFKA_ALIASES, STREAMS_HAVE_NO_END
from sparkcohort.runtime.shell.options.topic_pattern import PatternError, compile_pattern, finds
from sparkcohort.runtime.shell.options.value_options import DEAD_LETTER_TOPIC, idle_registry, read_decodings
from sparkcohort.runtime.shell.options.values import Values, json_object
from sparkcohort.runtime.values.columns import kafka_row

__all__ = ["SourceOptions", "SourceSubscription", "parse"]

PROVIDER: Final = "kafka.sasl.oauthbearer.provider"
_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")


def parse(options: Mapping[str, str], reads: Reads = "streams") -> SourceOptions:
    """Check and type the options of a stream or a batch read as Spark hands them over (keys in any case).

    Raises OptionError: one message that names the option and the remedy, never a secret's value.
    """
    texts = {key.lower(): str(value) for key, value in options.items()}
    warnings = _table_check(texts, {key.lower(): key for key in options}, reads)
    _unalias(texts)
    value = Values(texts)
    if reads == "streams":
        if not value.text("group.id"):
            raise OptionError(
                "option group.id is missing: name the Kafka group whose committed offsets this query advances, for "
                "instance .option('group.id', 'billing')"
            )
        warnings += _idle(texts)
    elif value.has_value(DEAD_LETTER_TOPIC):
        raise OptionError(
            f"option {DEAD_LETTER_TOPIC} is not supported in a batch read, of which each action would write the bad records again: "
            "leave it out; value.error.column and value.corrupt.column show them"
        )
    else:
        texts.setdefault("startingoffsets", "earliest")
        if value.text("endingOffsets").lower() == "earliest":
            raise OptionError("option endingOffsets=earliest: a batch read can't end at earliest; give latest, or JSON")
    source = _source_options(texts, value, warnings)
    _check_relations(source)
    if reads == "batches":
        check_batch(source)
    return source


def _source_options(texts: Mapping[str, str], value: Values, warnings: list[str]) -> SourceOptions:
    subscription = _subscription(texts)
    parsed = {name: value.read(option) for name, option in declared_options(SourceOptions).items()}
    kafka, more = _kafka_settings(texts, value, parsed)
    decodings = read_decodings(value, texts)
    if value.has_value(DEAD_LETTER_TOPIC):
        _check_dead_letter_topic(value.text(DEAD_LETTER_TOPIC), subscription)
    parsed["group_instance_id"] = parsed["group_instance_id"] or _instance_id(subscription)
    return SourceOptions(
        **parsed,
        subscription=subscription,
        columns=kafka_row(*decodings, headers=parsed["include_headers"]),
        kafka=kafka,
        kafka_names=kafka_names(texts),
        warnings=(*warnings, *more, *idle_registry(texts, *decodings)),
    )


def _kafka_settings(
    texts: Mapping[str, str], value: Values, parsed: Mapping[str, Any]
) -> tuple[dict[str, str], list[str]]:
    """librdkafka's configuration, and the warnings."""
    prefixed = {
        key.removeprefix("kafka."): text
        for key, text in texts.items()
        if key.startswith("kafka.") and key not in BY_KEY
    }
    if provider := value.text(PROVIDER):
        prefixed[PROVIDER.removeprefix("kafka.")] = provider
    conf, warnings = translate(prefixed)
    conf["bootstrap.servers"] = parsed["bootstrap_servers"]
    conf["metadata.max.age.ms"] = str(parsed["metadata_max_age_ms"])
    conf.setdefault("client.id", "cohort")
    if parsed["client_rack"]:
        conf["client.rack"] = parsed["client_rack"]
    return conf, warnings


def _table_check(texts: Mapping[str, str], written: Mapping[str, str], reads: Reads) -> list[str]:
    """Refuse unknown and refused options; return the warnings of those without effect."""
    warnings, idle = [], []
    if any(key.startswith("option.") for key in texts):  # Spark's name for each option of a table
        raise OptionError(
            "CREATE TABLE is not supported: Spark gives a Python source no options of a table when it is read; use CREATE "
            "TEMPORARY VIEW … USING cohort OPTIONS (…)"
        )
    for key in texts:
        option = BY_KEY.get(key)
        if option is None and key.startswith(("kafka.", *FAMILIES)):
            continue
        if option is None:
            raise OptionError(f"option {written[key]} is unknown{nearest_option(key)}")
        if option.status == "refused":
            raise OptionError(f"option {option.name} is not supported: {option.instead}")
        if option.reads == "none":
            raise OptionError(f"option {option.name} is for writes only: {option.instead}")
        if option.reads == "batches" and reads == "streams":
            raise OptionError(f"option {option.name} is not supported in a stream: {STREAMS_HAVE_NO_END}")
        if option.status == "accepted":
            warnings.append(f"option {option.name} has no effect: {option.instead}")
        elif option.reads == "streams" and reads == "batches":
            idle.append(option.name)
    if idle:
        warnings.append(f"without effect in a batch read, which has no group of executors: {', '.join(sorted(idle))}")
    return warnings


def _idle(texts: Mapping[str, str]) -> list[str]:
    """Warnings of options of an assignor that isn't offered."""
    if LOAD_BALANCED in assignor_names(texts.get("partition.assignment.strategy", "range")):
        return []
    options = [BY_KEY[key] for key in texts if key.startswith("load.balance.")]
    idle = [option.name for option in options if texts[option.name].strip() != option.default]
    return [f"option {name} has no effect: partition.assignment.strategy does not name load-balanced" for name in idle]


def nearest_option(key: str, *, writes: bool = False) -> str:
    """What to do about the name of an option that there isn't, of a read or a write."""
    if (kafkas := ROWS.get(key)) is not None:
        refusal = f", where it is not supported: {kafkas.reason}" if kafkas.fate is Fate.REFUSED else ""
        return f"; Kafka's own settings are written with the prefix: kafka.{key}{refusal}"
    if (of_values := BY_KEY.get(f"value.{key}")) and (of_values.writes or not writes):
        return f"; did you mean value.{key}, or key.{key}?"
    possible = [name for name, option in BY_KEY.items() if option.writes or not writes]
    near = difflib.get_close_matches(key, possible, n=1, cutoff=0.6)
    if near:
        option = BY_KEY[near[0]]
        is_none = option.status == "refused" or (option.reads == "none" and not writes)
        return f"; {option.instead}" if is_none else f"; did you mean {option.name}?"
    if "." in key:
        return f"; Kafka's own settings are written with the prefix: kafka.{key}"
    return "; docs/options.md lists every option"


def _unalias(texts: dict[str, str]) -> None:
    """Fold ``kafka.group.id`` and its like into the option of the same meaning."""
    for name in KAFKA_ALIASES:
        alias = texts.pop(f"kafka.{name}", None)
        if alias is not None and texts.setdefault(name, alias) != alias:
            raise OptionError(f"options {name} and kafka.{name} mean the same and differ: leave one out")


def _check_relations(parsed: SourceOptions) -> None:
    least, most = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"option minOffsetsPerTrigger={least} is greater than maxOffsetsPerTrigger={most}: lower one or "
            "raise the other"
        )
    if parsed.heartbeat_interval_ms >= parsed.session_timeout_ms:
        raise OptionError(
            f"option heartbeat.interval.ms={parsed.heartbeat_interval_ms} must be less than "
            f"session.timeout.ms={parsed.session_timeout_ms} (a third of it is usual)"
        )
    graceful = parsed.handover == "graceful"
    timed = parsed.starting_timestamp is not None or parsed.starting_offsets_by_timestamp is not None
    if graceful and (parsed.starting_offsets != "committed" or timed):
        raise OptionError(
            "option handover=graceful starts where the driver before ended: leave startingOffsets at committed, and "
            "startingTimestamp and startingOffsetsByTimestamp out"
        )
    _check_topics("maxOffsetsPerTrigger.topics", parsed.max_offsets_by_topic, parsed.subscription)


def _check_topics(name: str, names: Collection[str], subscription: SourceSubscription) -> None:
    """Raises OptionError for a topic in an option that the subscription does not read."""
    for topic in sorted(names):
        if not _is_read(topic, subscription):
            topics = {*subscription.topics, *subscription.partitions_by_topic()}
            near = difflib.get_close_matches(topic, topics, n=1)
            hint = f"; did you mean {near[0]}?" if near else ": name it in both or in none"
            raise OptionError(f"option {name} names {topic}, which option {subscription.kind} does not read{hint}")


def _check_dead_letter_topic(topic: str, subscription: SourceSubscription) -> None:
    """Raises OptionError for what is no topic, and for one whose records come back to this query."""
    _check_topic(DEAD_LETTER_TOPIC, topic, "give the name of one topic")
    if _is_read(topic, subscription):
        raise OptionError(
            f"option {DEAD_LETTER_TOPIC} names {topic}, which option {subscription.kind} reads: its records would be written there "
            "again and again; give another topic"
        )


def _is_read(topic: str, subscription: SourceSubscription) -> bool:
    try:
        if subscription.pattern:
            return finds(subscription.pattern, topic)
    except PatternError as error:
        raise OptionError(f"option subscribePattern={subscription.pattern}: {error}") from None
    return topic in subscription.topics or topic in subscription.partitions_by_topic()


# --- subscription and instance id -----------------------------------------------------------------


def _instance_id(subscription: SourceSubscription) -> str:
    """An id of the subscription: drivers on different topics share a group, two on the same topics fence each other (KIP-345)."""
    return "cohort-" + hashlib.sha256(str(subscription).encode()).hexdigest()[:8]


def is_default_instance_id(text: str | None) -> bool:
    """Whether an instance id is a default of ours (``_instance_id``)."""
    return re.fullmatch("cohort-[0-9a-f]{8}", text or "") is not None


def _subscription(texts: Mapping[str, str]) -> SourceSubscription:
    kinds = [name for name in _SUBSCRIPTIONS if name.lower() in texts]
    if len(kinds) != 1:
        count = f"{' and '.join(kinds)} are given" if kinds else "none is given"
        raise OptionError(f"exactly one of the options subscribe, subscribePattern and assign is needed: {count}")
    text = texts[kinds[0].lower()].strip()
    if kinds[0] == "subscribe":
        return SourceSubscription("subscribe", topics=_topics(text))
    if kinds[0] == "assign":
        return SourceSubscription("assign", partitions=_partitions(text))
    if not text:
        raise OptionError("option subscribePattern is empty: give a regular expression of topic names")
    try:
        compile_pattern(text)
    except PatternError as error:
        raise OptionError(
            f"option subscribePattern is no regular expression of Java's that can be used here: {error}"
        ) from None
    return SourceSubscription("subscribePattern", pattern=text)


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
    if not topics:
        raise OptionError("option subscribe is empty: name at least one topic")
    for topic in topics:
        _check_topic("subscribe", topic)
    return topics


def is_topic_name(name: str) -> bool:
    """Whether Kafka's ``Topic.validate`` takes the name."""
    return name not in (".", "..") and re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) is not None


def _check_topic(option: str, topic: str, otherwise: str = "for a regular expression use subscribePattern") -> None:
    """Raises OptionError for a name that is no topic's."""
    if not is_topic_name(topic):
        raise OptionError(
            f"option {option} names {topic!r}, which is no topic name (letters, digits, '.', '_', '-'); {otherwise}"
        )


def _partitions(text: str) -> tuple[TopicPartition, ...]:
    shape = 'expected {"topic":[0,1]}'
    value = json_object("assign", text, shape)
    partitions: set[TopicPartition] = set()
    for topic, numbers in value.items():
        _check_topic("assign", topic)
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n <= MAX_PARTITION for n in numbers):
            raise OptionError(f"option assign: {topic} must have a list of partition numbers; {shape}")
        partitions |= {TopicPartition(topic, number) for number in numbers}
    if not partitions:
        raise OptionError(f"option assign names no partition; {shape}")
    return tuple(sorted(partitions))
