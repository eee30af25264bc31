"""Checks of the cluster: each advertised listener, the brokers' API versions, permissions, and clocks.

Every request is bounded.  Listeners are tried as executors try them: TCP, TLS, ApiVersions and login, by Cohort's client.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from sparkcohort.cli.diagnosis import FAILED, Check, failed, not_asked, ok, warning
from sparkcohort.runtime.kafka.addresses import joined
from sparkcohort.runtime.kafka.fetch_messages import VERSIONS, best_version
from sparkcohort.runtime.shell.kafka import clients, group_requests
from sparkcohort.runtime.shell.kafka import errors as kafka_errors
from sparkcohort.runtime.shell.kafka.fetch import connection
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.text import counted

TIMEOUT_S: Final = 10.0
FIRST_S: Final = 0.4
EACH_S: Final = 5.0
MOST_BROKERS: Final = 200
AHEAD_S: Final = 2.0
"""How far a record's time may be ahead of this host's clock: a busy producer and the network make less than this."""
_ADVERTISED: Final = re.compile(
    r"(?:[^:]*: )?(?:[a-z_]+://)?(?P<host>[^\s/]{1,255}):(?P<port>\d{1,5})/(?P<id>\d{1,9}): "
)
_NAMES: Final = {3: "Metadata", 1: "Fetch"}
_CAN_READ: Final = (AclOperation.READ, AclOperation.DESCRIBE)


def checks(conf: Mapping[str, str], topics: Collection[str], group: str | None) -> list[Check]:
    """All checks that ask the brokers."""
    errors: list[KafkaError] = []
    try:
        admin, cluster = _cluster(conf, errors)
    except KafkaException as error:
        return diagnose_silence(conf, error, errors)
    brokers = {broker.id: (broker.host, broker.port) for broker in cluster.brokers.values()}
    results = _listeners(conf, brokers, "the bootstrap answers")
    readable = []
    for topic in topics:
        check, exists = _bounded(f"topic {topic}", conf, lambda topic=topic: _topic(admin, topic))  # type: ignore[misc]
        results.append(check)
        readable += [topic] * exists
    if not topics:
        results.append(not_asked("topics", "none is named", "--option subscribe=TOPIC"))
    if group:
        results.append(_bounded(f"group {group}", conf, lambda: _group(admin, conf, group, readable))[0])
    else:
        results.append(not_asked("group", "none is named", "--option group.id=GROUP"))
    results.append(_bounded("clocks", conf, lambda: (_clocks(admin, readable), True))[0])
    return results


def diagnose_silence(conf: Mapping[str, str], error: KafkaException, errors: Collection[KafkaError]) -> list[Check]:
    """The checks if no broker has answered; ``errors`` are librdkafka's meanwhile."""
    refused = any(each.code() in kafka_errors.AUTHENTICATION for each in errors)
    advertised = {} if refused else _advertised(errors)
    results = _listeners(conf, advertised, "a broker advertises them") if advertised else []
    # A listener that can't be tried, or answers by now, does not explain the silence.
    explained = any(each.result == FAILED for each in results)
    return results if explained else [*results, _no_broker(conf, error, errors)]


def _cluster(conf: Mapping[str, str], errors: list[KafkaError]) -> tuple[AdminClient, Any]:
    """The brokers.  A refused login ends the wait early."""
    deadline, wait_s = time.monotonic() + TIMEOUT_S, FIRST_S
    while True:
        # A new client each time: once librdkafka knows the advertised addresses, it asks only these, and if they are wrong
        # it never answers.
        admin = clients.new_admin({**conf, "log_level": "0", "error_cb": errors.append})  # type: ignore[dict-item]
        try:
            return admin, admin.list_topics(timeout=wait_s)
        except KafkaException:
            admin.poll(0)
            wait_s = min(2 * wait_s, deadline - time.monotonic())
            if wait_s <= 0 or any(each.code() in kafka_errors.AUTHENTICATION for each in errors):
                raise


def _advertised(errors: Collection[KafkaError]) -> dict[int, tuple[str, int]]:
    """The advertised brokers that librdkafka can't reach, from its errors ``host:port/id: Connect to …``."""
    matches = (_ADVERTISED.match(clients.text_of(each)) for each in errors if each.code() == KafkaError._TRANSPORT)
    return {int(each["id"]): (each["host"], int(each["port"])) for each in matches if each is not None}


def _no_broker(conf: Mapping[str, str], error: KafkaException, errors: Collection[KafkaError]) -> Check:
    servers = conf["bootstrap.servers"]
    refused = [each for each in errors if each.code() in kafka_errors.AUTHENTICATION]
    reasons = refused or [each for each in errors if each.code() != KafkaError._ALL_BROKERS_DOWN] or list(errors)
    text = redact_text(clients.text_of(reasons[-1] if reasons else error), conf)
    if refused:
        return failed("brokers", f"login at {servers} refused: {text}", "check security.protocol, sasl.* and ssl.*")
    return failed("brokers", f"{servers}: {text}", "check the address, the network, and security.protocol")


def _bounded(name: str, conf: Mapping[str, str], act: Callable[[], tuple[Check, bool]]) -> tuple[Check, bool]:
    try:
        return act()
    except (KafkaException, TimeoutError) as error:
        text = redact_text(clients.text_of(error), conf)
        return failed(name, text, "look at the broker that coordinates or leads it, and try again"), False


# --- listeners -------------------------------------------------------------------------------------


def _listeners(conf: Mapping[str, str], brokers: Mapping[int, tuple[str, int]], remark: str) -> list[Check]:
    impossible = connection.unsupported(conf)
    if impossible:
        return [not_asked("listeners", f"each one can't be tried by our own client ({impossible}); {remark}")]
    settings = connection.Settings.parse(conf)
    nodes = sorted(brokers.items())[:MOST_BROKERS]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda node: _listener(node[0], node[1][0], node[1][1], settings), nodes))


def _listener(node: int, host: str, port: int, settings: connection.Settings) -> Check:
    name = f"broker {node} at {joined(host, port)}"
    try:
        transport = connection.connect(host, port, settings, EACH_S)
    except connection.ConnectionRefused as error:
        return failed(
            name, settings.redacted(str(error)), "check security.protocol, sasl.* and ssl.*, and this broker's own"
        )
    except connection.TransportError as error:
        remedy = "this address is what the broker advertises (advertised.listeners): it has to be reached from the driver and every executor"
        return failed(name, settings.redacted(str(error)), remedy)
    spoken = transport.versions
    transport.close()
    lacking = [
        f"{_NAMES.get(api, api)} {' or '.join(map(str, versions))}"
        for api, versions in VERSIONS.items()
        if best_version(api, spoken) is None
    ]
    if lacking:
        remedy = "nothing: librdkafka reads there, more slowly; or upgrade the broker to Kafka 2.4 or newer"
        return warning(name, f"reached; it doesn't speak {', '.join(lacking)}", remedy)
    return ok(name, f"reached and logged in; Fetch up to version {spoken[1][1]}")


# --- permissions -----------------------------------------------------------------------------------


def _topic(admin: AdminClient, topic: str) -> tuple[Check, bool]:
    name = f"topic {topic}"
    futures = admin.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=TIMEOUT_S
    )
    try:
        facts = futures[topic].result(TIMEOUT_S + 1)
    except KafkaException as error:
        if clients.code_of(error) == kafka_errors.TOPIC_DENIED:
            return failed(
                name, "no permission to describe it (or it is not there)", _grant("topic", topic, _CAN_READ)
            ), False
        if clients.code_of(error) in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return failed(
                name, "it is not there", f"kafka-topics --create --topic {topic}, or correct subscribe"
            ), False
        raise
    missing = _missing(facts.authorized_operations)
    if missing:
        return failed(name, f"{_words(missing)} is not allowed", _grant("topic", topic, missing)), True
    return ok(name, f"{counted(len(facts.partitions), 'partition')}; describe and read are allowed"), True


def _group(admin: AdminClient, conf: Mapping[str, str], group: str, topics: Collection[str]) -> tuple[Check, bool]:
    name = f"group {group}"
    futures = group_requests.describe_groups(admin, [group], operations=True)
    try:
        facts = futures[group].result(TIMEOUT_S + 1)
    except KafkaException as error:
        if clients.code_of(error) == kafka_errors.GROUP_DENIED:
            return failed(name, "no permission to describe it", _grant("group", group, _CAN_READ)), False
        if clients.code_of(error) != KafkaError.GROUP_ID_NOT_FOUND:
            raise
        return _commits(conf, group, topics), True
    missing = _missing(facts.authorized_operations)
    if missing:
        return failed(name, f"{_words(missing)} is not allowed", _grant("group", group, missing)), True
    return ok(
        name, f"{facts.state.name.lower()}, {counted(len(facts.members), 'member')}; describe and read are allowed"
    ), True


def _commits(conf: Mapping[str, str], group: str, topics: Collection[str]) -> Check:
    """A group that doesn't exist yet.  Asking for its commits needs the right to describe it, so the answer tells of that."""
    name = f"group {group}"
    if not topics:
        return not_asked(name, "it is not there yet, and without a topic nothing can be asked of it")
    consumer = clients.new_consumer({**conf, "log_level": "0", "group.id": group})
    try:
        answers = consumer.committed([Position(min(topics), 0)], timeout=EACH_S)
        denied = any(each.error is not None and each.error.code() == kafka_errors.GROUP_DENIED for each in answers)
    except KafkaException as error:
        # librdkafka (2.16) retries FindCoordinator without permission until it times out.
        denied = clients.code_of(error) in (kafka_errors.GROUP_DENIED, KafkaError._TIMED_OUT)
        if not denied:
            raise
    finally:
        consumer.close()
    if denied:
        return failed(
            name,
            f"no answer to what it has committed within {EACH_S:g} s: no permission, or no coordinator",
            _grant("group", group, _CAN_READ),
        )
    return warning(
        name,
        "it is not there yet; describe is allowed, read can't be known before a member joins",
        _grant("group", group, (AclOperation.READ,)) + " (unless it is allowed already)",
    )


def _missing(operations: Collection[Enum] | None) -> list[AclOperation]:
    """The missing ones of the operations that a reader needs; none if the broker tells nothing (it has no authorizer)."""
    allowed = set(operations or ())
    return [] if not allowed or AclOperation.ALL in allowed else [each for each in _CAN_READ if each not in allowed]


def _words(operations: Collection[AclOperation]) -> str:
    return " and ".join(each.name.lower() for each in operations)


def _grant(kind: str, name: str, operations: Collection[AclOperation]) -> str:
    flags = " ".join(f"--operation {each.name.capitalize()}" for each in operations)
    return f"kafka-acls --bootstrap-server … --add --allow-principal User:… {flags} --{kind} {name}"


# --- clocks ----------------------------------------------------------------------------------------


def _clocks(admin: AdminClient, topics: Collection[str]) -> Check:
    """Whether a clock is ahead of this host's.  No answer of Kafka has the broker's time: the newest record's is used."""
    name = "clocks"
    if not topics:
        return not_asked(name, "Kafka tells its time in records only, and no topic is named")
    topic = min(topics)
    numbers = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    futures = admin.list_offsets(
        {Position(topic, each): OffsetSpec.max_timestamp() for each in numbers}, request_timeout=TIMEOUT_S
    )
    stamps = [future.result(TIMEOUT_S + 1).timestamp for future in futures.values()]
    newest = max(stamps, default=-1) / 1000
    if newest < 0:
        return not_asked(name, f"Kafka tells its time in records only, and {topic} has none")
    ahead = newest - time.time()
    if ahead > AHEAD_S:
        return warning(
            name,
            f"the newest record of {topic} is {ahead:.1f} s ahead of this host",
            "set this host's, the brokers' and the producers' clocks by NTP",
        )
    return ok(
        name, f"the newest record of {topic} is {-ahead:.1f} s old by this host's clock: no clock is seen ahead of it"
    )
