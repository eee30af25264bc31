"""An operator's list of Kafka's settings that no query may give."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.disallowed import ERROR, SETTING, check_allowed, kafka_names
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.streaming import session_zone

LEAST = {"kafka.bootstrap.servers": "b:9092", "subscribe": "t"}
STREAM = {**LEAST, "group.id": "g"}


@pytest.mark.parametrize(
    ("given", "listed", "named"),
    [
        ({"kafka.max.poll.records": "1"}, "max.poll.records", "kafka.max.poll.records"),
        ({"KAFKA.Max.Poll.Records": "1"}, " sasl.jaas.config , MAX.poll.records,", "kafka.max.poll.records"),
        ({"kafka.max.poll.records": "1"}, "kafka.max.poll.records", "kafka.max.poll.records"),
        ({"kafka.session.timeout.ms": "30000"}, "session.timeout.ms", "kafka.session.timeout.ms"),
        ({"session.timeout.ms": "30000"}, "session.timeout.ms", "session.timeout.ms"),
        ({"kafka.sasl.mechanisms": "PLAIN"}, "sasl.mechanism", "kafka.sasl.mechanisms"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "sasl.mechanisms", "kafka.sasl.mechanism"),
        ({"kafka.ssl.ca.location": "/ca"}, "ssl.truststore.location", "kafka.ssl.ca.location"),
        ({"kafka.sasl.username": "u"}, "sasl.jaas.config", "kafka.sasl.username"),
        ({}, "group.id", "group.id"),
    ],
)
def test_what_is_listed_is_refused(given: dict[str, str], listed: str, named: str) -> None:
    """In any case, by any name that it has, whether it has an effect here or not."""
    names = kafka_names(key.lower() for key in {**STREAM, **given})
    with pytest.raises(OptionError, match=f"option {named} is not allowed: {SETTING} names it") as caught:
        check_allowed(names, listed)
    assert caught.value.error == ERROR


@pytest.mark.parametrize("listed", ["", ",", "group.id,max.poll.records", "records", "poll"])
def test_what_is_not_listed_is_allowed(listed: str) -> None:
    """No list, one of others, and parts of names; a batch read names no group."""
    check_allowed(parse({**LEAST, "kafka.fetch.min.bytes": "1"}, "batches").kafka_names, listed)


def test_a_task_goes_by_its_session() -> None:
    """Where the driver's process could not find the list."""
    options = parse({**STREAM, "kafka.max.poll.records": "1"})
    session_zone.check_session(options)
    with pytest.raises(OptionError, match="records is not allowed"):
        session_zone.check_session(options, {session_zone.DISALLOWED: "max.poll.records"}.get)
    assert session_zone.DISALLOWED == SETTING
