"""Checks of the cluster: each advertised listener, the brokers' API versions, and permissions.

Every request is bounded.  Listeners are tried as executors try them: TCP, TLS, ApiVersions and login, by Cohort's client.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from enum import Enum
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation

from sparkcohort.cli.diagnosis import FAILED, NOT_ASKED, OK, WARNING, Check
from sparkcohort.cli.kafka_group import TIMEOUT_S, KafkaGroup
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.addresses import joined
from sparkcohort.runtime.kafka.fetch_messages import VERSIONS, Node, best_version
from sparkcohort.runtime.shell.kafka import clients, group_requests
from sparkcohort.runtime.shell.kafka import errors as kafka_errors
from sparkcohort.runtime.shell.kafka.fetch import connection
from sparkcohort.runtime.shell.options.connection_settings import (
    ConnectionRefused,
    Settings,
    TransportError,
    unsupported,
)
from sparkcohort.runtime.text import counted

EACH_S: Final = 5.0
MOST_BROKERS: Final = 200
_NAMES: Final = {3: "Metadata", 1: "Fetch"}
_CAN_READ: Final = (AclOperation.READ, AclOperation.DESCRIBE)
LOGIN: Final = "check security.protocol, sasl.* and ssl.*"


def checks(conf: Mapping[str, str], topics: Collection[str], group: str | None) -> list[Check]:
    """All checks that ask the brokers."""
    try:
        kafka = KafkaGroup(group or "", conf)
    except CohortError as error:
        return [Check("brokers", FAILED, str(error), f"check the address and the network; {LOGIN}")]
    with closing(kafka):
        return [*_listeners(conf, kafka.metadata.nodes), *_permissions(kafka, topics)]


def _permissions(kafka: KafkaGroup, topics: Collection[str]) -> Iterator[Check]:
    yield from (_topic(kafka, topic) for topic in topics)
    if not topics:
        yield Check("topics", NOT_ASKED, "none is named", "--option subscribe=TOPIC")
    yield _group(kafka) if kafka.name else Check("group", NOT_ASKED, "none is named", "--option group.id=GROUP")


def _silent(name: str, error: CohortError) -> Check:
    return Check(name, FAILED, str(error), "look at the broker that coordinates or leads it, and try again")


# --- listeners -------------------------------------------------------------------------------------


def _listeners(conf: Mapping[str, str], brokers: Mapping[int, Node]) -> list[Check]:
    impossible = unsupported(conf)
    if impossible:
        return [
            Check("listeners", NOT_ASKED, f"each one can't be tried by our own client ({impossible}); a broker answers")
        ]
    settings = Settings.parse(conf)
    nodes = sorted(brokers.items())[:MOST_BROKERS]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda node: _listener(node[0], node[1], settings), nodes))


def _listener(number: int, node: Node, settings: Settings) -> Check:
    name = f"broker {number} at {joined(node.host, node.port)}"
    try:
        transport = connection.connect(node.host, node.port, settings, EACH_S)
    except ConnectionRefused as error:
        return Check(name, FAILED, settings.redacted(str(error)), f"{LOGIN}, and this broker's own")
    except TransportError as error:
        remedy = "this address is what the broker advertises (advertised.listeners): it has to be reached from the driver and every executor"
        return Check(name, FAILED, settings.redacted(str(error)), remedy)
    spoken = transport.versions
    transport.close()
    lacking = [
        f"{_NAMES.get(api, api)} {' or '.join(map(str, versions))}"
        for api, versions in VERSIONS.items()
        if best_version(api, spoken) is None
    ]
    if lacking:
        remedy = "nothing: librdkafka reads there, more slowly; or upgrade the broker to Kafka 2.4 or newer"
        return Check(name, WARNING, f"reached; it doesn't speak {', '.join(lacking)}", remedy)
    return Check(name, OK, f"reached and logged in; Fetch up to version {spoken[1][1]}")


# --- permissions -----------------------------------------------------------------------------------


def _topic(kafka: KafkaGroup, topic: str) -> Check:
    name = f"topic {topic}"
    futures = kafka.admin.describe_topics(
        TopicCollection([topic]), include_authorized_operations=True, request_timeout=TIMEOUT_S
    )
    try:
        facts = futures[topic].result(TIMEOUT_S + 1)
    except (KafkaException, TimeoutError) as error:
        code = clients.code_of(error) if isinstance(error, KafkaException) else None
        if code == kafka_errors.TOPIC_DENIED:
            return Check(
                name, FAILED, "no permission to describe it (or it is not there)", _grant("topic", topic, _CAN_READ)
            )
        if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            return Check(
                name, FAILED, "it is not there", f"kafka-topics --create --topic {topic}, or correct subscribe"
            )
        return _silent(name, kafka.as_cohort_error(error))
    return _allowed(name, facts.authorized_operations, counted(len(facts.partitions), "partition"))


def _group(kafka: KafkaGroup) -> Check:
    name = f"group {kafka.name}"
    futures = group_requests.describe_groups(kafka.admin, [kafka.name], operations=True)
    try:
        facts = futures[kafka.name].result(TIMEOUT_S + 1)
    except (KafkaException, TimeoutError) as error:
        code = clients.code_of(error) if isinstance(error, KafkaException) else None
        if code == kafka_errors.GROUP_DENIED:
            return Check(name, FAILED, "no permission to describe it", _grant("group", kafka.name, _CAN_READ))
        if code == KafkaError.GROUP_ID_NOT_FOUND:
            finding = "it is not there yet; describe is allowed, read can't be known before a member joins"
            return Check(
                name,
                WARNING,
                finding,
                f"{_grant('group', kafka.name, (AclOperation.READ,))} (unless it is allowed already)",
            )
        return _silent(name, kafka.as_cohort_error(error))
    members = f"{facts.state.name.lower()}, {counted(len(facts.members), 'member')}"
    return _allowed(name, facts.authorized_operations, members)


def _allowed(name: str, operations: Collection[Enum] | None, finding: str) -> Check:
    """Whether a reader may do what it has to; a broker without authorizer tells nothing, and allows everything."""
    allowed = set(operations or ())
    missing = [] if not allowed or AclOperation.ALL in allowed else [each for each in _CAN_READ if each not in allowed]
    if missing:
        kind, _, resource = name.partition(" ")
        words = " and ".join(each.name.lower() for each in missing)
        return Check(name, FAILED, f"{words} is not allowed", _grant(kind, resource, missing))
    return Check(name, OK, f"{finding}; describe and read are allowed")


def _grant(kind: str, name: str, operations: Collection[AclOperation]) -> str:
    flags = " ".join(f"--operation {each.name.capitalize()}" for each in operations)
    return f"kafka-acls --bootstrap-server … --add --allow-principal User:… {flags} --{kind} {name}"
