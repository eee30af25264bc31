"""The source's options, parsed: one frozen value, or one clear error naming the option and what to do."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from sparkcohort.runtime.batches.hold import Policy
from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.kafka import addresses
from sparkcohort.runtime.protocol.offsets_json import MAX_PARTITION
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.options.disallowed import kafka_names
from sparkcohort.runtime.shell.options.kafka_settings import bounds
from sparkcohort.runtime.shell.options.kafka_settings.rows import ROWS, Fate
from sparkcohort.runtime.shell.options.kafka_settings.translate import translate
from sparkcohort.runtime.shell.options.option_row import Reads
from sparkcohort.runtime.shell.options.source_options import LOAD_BALANCED, SourceOptions, SourceSubscription
from sparkcohort.runtime.shell.options.table import BY_KEY, KAFKA_ALIASES, STREAMS_HAVE_NO_END
from sparkcohort.runtime.shell.options.topic_pattern import PatternError, topic_pattern
from sparkcohort.runtime.shell.options.value_options import idle_registry, read_decodings
from sparkcohort.runtime.shell.options.values import Start, Values, json_object
from sparkcohort.runtime.text import printable
from sparkcohort.runtime.values.columns import Columns, kafka_row

__all__ = [
    "KAFKAS_PACKAGE",
    "SourceOptions",
    "SourceSubscription",
    "assignor_name",
    "check_named",
    "parse",
    "parse_values",
    "read_values",
]

PROVIDER = "kafka.sasl.oauthbearer.provider"
_SERVERS = "kafka.bootstrap.servers"
_ADDRESS = re.compile(r"\s*([A-Za-z_]+://)?(\[[^\[\]]+\]|[^\[\]:;,\s]+):[0-9]+\s*")
_SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")


def parse(options: Mapping[str, str]) -> SourceOptions:
    """Check and type the options of a stream as Spark hands them over (keys in any case).

    Raises ``OptionError``: one message that names the option and the remedy, never a secret's value.
    """
    given, warnings = read_values(options, "streams")
    if not given.get("group.id", "").strip():
        raise OptionError(
            "option group.id is missing: name the Kafka group whose committed offsets this query advances, for "
            "instance .option('group.id', 'billing')"
        )
    return parse_values(given, (*warnings, *_idle(given)))


def parse_for_either(options: Mapping[str, str]) -> SourceOptions:
    """What the options mean for streams and batch reads alike.  Raises OptionError for what is wrong with them in both."""
    given, warnings = read_values(options, "both")
    return parse_values(given, warnings)


def read_values(options: Mapping[str, str], reads: Reads) -> tuple[dict[str, str], tuple[str, ...]]:
    """The options by their keys in lower case, and what is to be warned of.  Raises OptionError for what can't be here."""
    given = {key.lower(): str(value) for key, value in options.items()}
    warnings = _table_check(given, {key.lower(): key for key in options}, reads)
    _unalias(given)
    return given, tuple(warnings)


def parse_values(given: Mapping[str, str], warnings: tuple[str, ...]) -> SourceOptions:
    """What streams and batch reads have in common, of options that ``read_values`` has let through.  Raises OptionError."""
    value = Values(given)
    subscription = _subscription(given)
    prefixed = {
        key.removeprefix("kafka."): text
        for key, text in given.items()
        if key.startswith("kafka.") and key not in BY_KEY
    }
    if value.text(PROVIDER):
        prefixed[PROVIDER.removeprefix("kafka.")] = value.text(PROVIDER)
    conf, more = translate(prefixed)
    conf["bootstrap.servers"] = _bootstrap(given)
    age, warning = bounds.within("metadata.max.age.ms", str(value.integer("metadata.max.age.ms")))
    warnings += (warning,) if warning else ()
    conf["metadata.max.age.ms"] = age
    conf.setdefault("client.id", "cohort")
    if value.text("client.rack"):
        conf["client.rack"] = value.text("client.rack")
    made = read_decodings(value, given)
    columns = kafka_row(*made, headers=value.boolean("includeHeaders"))
    parsed = _build(value, subscription, conf, columns, (*warnings, *more, *idle_registry(given, *made)))
    _check_relations(parsed)
    return replace(parsed, kafka_names=kafka_names(given))


def _table_check(given: Mapping[str, str], written: Mapping[str, str], reads: Reads) -> list[str]:
    """Refuse unknown and refused options; return the warnings of those without effect."""
    warnings, idle = [], []
    if any(key.startswith("option.") for key in given):  # Spark's name for each option of a table
        raise OptionError(
            "CREATE TABLE is not supported: Spark gives a Python source no options of a table when it is read; use CREATE "
            "TEMPORARY VIEW … USING cohort OPTIONS (…)"
        )
    for key in given:
        option = BY_KEY.get(key)
        if option is None and key.startswith("kafka."):
            continue
        if option is None:
            raise OptionError(f"option {written[key]} is unknown{_nearest(key)}")
        if option.status == "refused":
            raise OptionError(f"option {option.name} is not supported: {option.instead}")
        if option.reads == "batches" and reads == "streams":
            raise OptionError(f"option {option.name} is not supported in a stream: {STREAMS_HAVE_NO_END}")
        if option.status == "accepted":
            warnings.append(f"option {option.name} has no effect: {option.instead}")
        elif option.reads == "streams" and reads == "batches":
            idle.append(option.name)
    if idle:
        warnings.append(f"without effect in a batch read, which has no group of executors: {', '.join(sorted(idle))}")
    return warnings


def _idle(given: Mapping[str, str]) -> list[str]:
    """Warnings of options of an assignor that isn't offered."""
    if LOAD_BALANCED in _assignors(given.get("partition.assignment.strategy", "range")):
        return []
    set_ = [BY_KEY[key] for key in given if key.startswith("load.balance.")]
    idle = [option.name for option in set_ if given[option.name].strip() != option.default]
    return [f"option {name} has no effect: partition.assignment.strategy does not name load-balanced" for name in idle]


def _nearest(key: str) -> str:
    if (kafkas := ROWS.get(key)) is not None and kafkas.fate is not Fate.REFUSED:
        return f"; Kafka's own settings are written with the prefix: kafka.{key}"
    if f"value.{key}" in BY_KEY:
        return f"; did you mean value.{key}, or key.{key}?"
    near = difflib.get_close_matches(key, BY_KEY, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {BY_KEY[near[0]].name}?"
    if "." in key:
        return f"; Kafka's own settings are written with the prefix: kafka.{key}"
    return "; docs/options.md lists every option"


def _unalias(given: dict[str, str]) -> None:
    """Fold ``kafka.group.id`` and its like into the option of the same meaning."""
    for name in KAFKA_ALIASES:
        alias = given.pop(f"kafka.{name}", None)
        if alias is not None and given.setdefault(name, alias) != alias:
            raise OptionError(f"options {name} and kafka.{name} mean the same and differ: leave one out")


def _bootstrap(given: Mapping[str, str]) -> str:
    """The brokers' addresses."""
    servers = given.get(_SERVERS, "").strip()
    if not servers:
        raise OptionError(f"option {_SERVERS} is missing: give the brokers to start from, host:port,host:port")
    try:
        addresses.servers(servers)
    except ValueError as error:
        raise OptionError(f"option {_SERVERS}: {error}; give host:port,host:port") from None
    # librdkafka would take 9092 for a port that is missing, and wait for it; Java refuses it (ClientUtils.parseAndValidateAddresses).
    if wrong := [each for each in servers.split(",") if each.strip() and not _ADDRESS.fullmatch(each)]:
        raise OptionError(
            f"option {_SERVERS}: {printable(wrong[0].strip(), 100)} is no host with a port; give host:port,host:port"
        )
    return servers


def _build(
    value: Values,
    subscription: SourceSubscription,
    conf: Mapping[str, str],
    columns: Columns,
    warnings: tuple[str, ...],
) -> SourceOptions:
    return SourceOptions(
        bootstrap_servers=conf["bootstrap.servers"],
        subscription=subscription,
        group_id=value.text("group.id"),
        group_instance_id=value.text("group.instance.id") or _instance_id(subscription),
        starting_offsets=value.start("startingOffsets"),
        starting_offsets_fallback=value.start("startingOffsets.fallback"),
        starting_timestamp=value.optional("startingTimestamp"),
        starting_offsets_by_timestamp=value.timestamps("startingOffsetsByTimestamp"),
        starting_offsets_by_timestamp_strategy=value.choice("startingOffsetsByTimestampStrategy"),
        max_offsets_per_trigger=_most_offsets(value),
        max_offsets_by_topic=value.by_topic("maxOffsetsPerTrigger.topics"),
        max_bytes_per_trigger=value.size("maxBytesPerTrigger"),
        min_offsets_per_trigger=value.optional("minOffsetsPerTrigger"),
        max_trigger_delay_ms=value.duration("maxTriggerDelay"),
        min_partitions=value.optional("minPartitions"),
        max_records_per_partition=value.optional("maxRecordsPerPartition"),
        fail_on_data_loss=value.boolean("failOnDataLoss"),
        columns=columns,
        unreachable=Policy(value.choice("unreachable.partitions"), value.integer("unreachable.timeout.ms")),
        session_timeout_ms=value.integer("session.timeout.ms"),
        heartbeat_interval_ms=value.integer("heartbeat.interval.ms"),
        rebalance_timeout_ms=value.integer("rebalance.timeout.ms"),
        scheduled_rebalance_max_delay_ms=value.integer("scheduled.rebalance.max.delay.ms"),
        assignors=_assignors(value.text("partition.assignment.strategy")),
        load_balance_threshold=value.number("load.balance.threshold"),
        load_balance_after_ms=value.integer("load.balance.after.ms"),
        load_balance_max_moves=value.integer("load.balance.max.moves"),
        rebalance_listener=_dotted(value, "rebalance.listener"),
        handover=value.choice("handover"),
        handover_timeout_ms=value.integer("handover.timeout.ms"),
        agent_timeout_ms=value.integer("agent.timeout.ms"),
        poll_timeout_ms=value.integer("kafkaConsumer.pollTimeoutMs"),
        fetch_retries=value.integer("fetchOffset.numRetries"),
        fetch_retry_interval_ms=value.integer("fetchOffset.retryIntervalMs"),
        api_timeout_ms=value.integer("kafka.default.api.timeout.ms"),
        metadata_max_age_ms=int(conf["metadata.max.age.ms"]),
        coordinator_host=value.host("coordinator.host") or None,
        coordinator_port=value.integer("coordinator.port"),
        metrics_port=value.optional("metrics.port"),
        metrics_address=value.host("metrics.address"),
        metrics_partitions=value.integer("metrics.partitions"),
        buffer_bytes=value.integer("buffer.bytes"),
        client_rack=value.text("client.rack"),
        client_rack_env=_variable(value, "client.rack.env"),
        kafka=dict(conf),
        warnings=warnings,
    )


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
    named = (
        ("startingOffsets", parsed.starting_offsets),
        ("startingOffsets.fallback", parsed.starting_offsets_fallback),
        ("startingOffsetsByTimestamp", parsed.starting_offsets_by_timestamp),
    )
    for name, start in named:
        check_named(name, start, parsed.subscription)
    _check_topics("maxOffsetsPerTrigger.topics", parsed.max_offsets_by_topic, parsed.subscription)


def _check_topics(name: str, named: Collection[str], subscription: SourceSubscription) -> None:
    """Topics named in an option must be among what is read, or may come to be."""
    topics = set(subscription.topics) | {tp.topic for tp in subscription.partitions}
    for topic in sorted(named):
        try:
            read = topic_pattern(subscription.pattern).finds(topic) if subscription.pattern else topic in topics
        except PatternError as error:
            raise OptionError(f"option subscribePattern={subscription.pattern}: {error}") from None
        if not read:
            near = difflib.get_close_matches(topic, topics, n=1)
            hint = f"; did you mean {near[0]}?" if near else ": name it in both or in none"
            raise OptionError(f"option {name} names {topic}, which option {subscription.kind} does not read{hint}")


def _most_offsets(value: Values) -> int | None:
    if value.text("maxOffsetsPerTrigger").startswith("{"):
        raise OptionError(
            "option maxOffsetsPerTrigger is one number for all topics: limits of single topics are given with "
            "maxOffsetsPerTrigger.topics"
        )
    return value.optional("maxOffsetsPerTrigger")


def check_named(name: str, start: Start | None, subscription: SourceSubscription) -> None:
    """Partitions named in a start must be among what is read (a pattern cannot be told here)."""
    if not isinstance(start, Mapping) or subscription.kind == "subscribePattern":
        return
    unread = [tp for tp in start if tp not in subscription.partitions and tp.topic not in subscription.topics]
    if unread:
        tp = min(unread)
        raise OptionError(
            f"option {name} names {tp.topic}-{tp.partition}, which option {subscription.kind} does not read: "
            "name it in both or in none"
        )


# --- what is read, and as which group -------------------------------------------------------------


def _instance_id(subscription: SourceSubscription) -> str:
    """Of what is read: queries on different topics share a group, and two on the same ones fence each other (KIP-345)."""
    return "cohort-" + hashlib.sha256(str(subscription).encode()).hexdigest()[:8]


def is_default_instance_id(text: str | None) -> bool:
    """Whether a static member is the driver of a query of ours, whose options name no instance id."""
    return re.fullmatch("cohort-[0-9a-f]{8}", text or "") is not None


def _subscription(given: Mapping[str, str]) -> SourceSubscription:
    kinds = [name for name in _SUBSCRIPTIONS if name.lower() in given]
    if len(kinds) != 1:
        found = f"{' and '.join(kinds)} are given" if kinds else "none is given"
        raise OptionError(f"exactly one of the options subscribe, subscribePattern and assign is needed: {found}")
    text = given[kinds[0].lower()].strip()
    if kinds[0] == "subscribe":
        return SourceSubscription("subscribe", topics=_topics(text))
    if kinds[0] == "assign":
        return SourceSubscription("assign", partitions=_partitions(text))
    if not text:
        raise OptionError("option subscribePattern is empty: give a regular expression of topic names")
    try:
        topic_pattern(text)
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


def _check_topic(option: str, topic: str) -> None:
    """Refuse what Kafka's ``Topic.validate`` would."""
    if topic in (".", "..") or not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic):
        raise OptionError(
            f"option {option} names {topic!r}, which is no topic name (letters, digits, '.', '_', '-'); "
            "for a regular expression use subscribePattern"
        )


def _partitions(text: str) -> tuple[TopicPartition, ...]:
    shape = 'expected {"topic":[0,1]}'
    value = json_object("assign", text, shape)
    found: set[TopicPartition] = set()
    for topic, numbers in value.items():
        _check_topic("assign", topic)
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n <= MAX_PARTITION for n in numbers):
            raise OptionError(f"option assign: {topic} must have a list of partition numbers; {shape}")
        found |= {TopicPartition(topic, number) for number in numbers}
    if not found:
        raise OptionError(f"option assign names no partition; {shape}")
    return tuple(sorted(found))


_DOTTED = r"[^\W\d]\w*(\.[^\W\d]\w*)*([.:][^\W\d]\w*)(\.[^\W\d]\w*)*"


def _dotted(value: Values, name: str) -> str:
    """A dotted name, or nothing; only its shape is looked at here."""
    text = value.text(name)
    if text and not re.fullmatch(_DOTTED, text):
        raise OptionError(f"option {name}={text!r} must be package.module.Class or package.module:object")
    return text


def _variable(value: Values, name: str) -> str:
    """The name of an environment variable, or nothing."""
    text = value.text(name)
    if text and not re.fullmatch(r"[A-Za-z_]\w*", text, re.ASCII):
        raise OptionError(
            f"option {name}={text!r} must name an environment variable of the executors, such as NODE_ZONE"
        )
    return text


KAFKAS_PACKAGE = "org.apache.kafka.clients.consumer."
_KAFKAS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def _assignors(text: str) -> tuple[str, ...]:
    """Names of assignors, Kafka's classes by theirs; what they name is looked for when the query starts."""
    names = tuple(dict.fromkeys(assignor_name(part.strip()) for part in text.split(",") if part.strip()))
    if not names:
        raise OptionError("option partition.assignment.strategy is empty: name at least one assignor")
    return names


def assignor_name(name: str) -> str:
    """The name of an assignor, a Kafka class by its own.  Raises OptionError for what can be none."""
    short = name.removeprefix(KAFKAS_PACKAGE)
    if short in _KAFKAS:
        return _KAFKAS[short]
    if short != name:
        near = difflib.get_close_matches(short, _KAFKAS, n=1, cutoff=0)[0]
        raise OptionError(f"option partition.assignment.strategy: Kafka has no {name}; did you mean {near}?")
    if not re.fullmatch(rf"[\w-][\w.-]*|{_DOTTED}", name):
        raise OptionError(
            f"option partition.assignment.strategy={name!r}: expected the name of an assignor, package.module.Class or "
            "package.module:object"
        )
    return name
