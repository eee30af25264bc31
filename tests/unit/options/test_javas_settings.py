"""Every setting of Kafka's consumer, as Kafka's own ``ConfigDef`` has it, and every one of librdkafka's, is known here."""

from __future__ import annotations

import re
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.fetch_client import FetchClient
from sparkcohort.runtime.shell.kafka.fetch.settings import settings_of
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, Fate
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse
from sparkcohort.runtime.shell.options.table import BY_KEY
from sparkcohort.runtime.values.columns import KAFKA_ROW
from tests.kit.kafka_settings import NUMBERS, JavasSetting, consumer_settings, is_librdkafkas
from tests.kit.options import LEAST
from tests.kit.record_sources import by_librdkafka


def read(name: str, value: str) -> SourceOptions | str:
    """What the option comes to: options, or the error."""
    try:
        return parse({**LEAST, f"kafka.{name}": value})
    except OptionError as error:
        return str(error)


def test_every_setting_of_kafkas_consumer_is_known() -> None:
    """None is called unknown, whatever its value; each has a row, or an option of ours."""
    settings = consumer_settings()
    assert len(settings) > 110
    assert [each.name for each in settings if each.name not in ROWS and each.name not in BY_KEY] == []
    for each in settings:
        for value in ("5", "true", each.default):
            found = read(each.name, value)
            assert "unknown" not in str(found), each
            assert "did you mean" not in str(found), each


def test_javas_defaults_need_no_word() -> None:
    """Who writes a default of Java's down is told of no more than that it has no effect, or that it is ours to set."""
    for each in consumer_settings():
        if each.default in ("-", "null", "", "[]"):
            continue
        found = read(each.name, each.default.strip("[]").replace("class ", ""))
        if isinstance(found, str):
            refused = ROWS[each.name].fate is Fate.REFUSED
            assert refused or each.name in ("sasl.mechanism", "ssl.keystore.type", "ssl.truststore.type"), found
        else:
            assert not [warning for warning in found.warnings if "has no effect" not in warning]


def numeric() -> list[JavasSetting]:
    """Settings that are whole numbers."""
    return [each for each in consumer_settings() if each.type in NUMBERS]


def test_numbers_work_or_are_refused_by_the_name_that_was_given() -> None:
    """At Java's bounds and beyond: every client can be made with them, or one error of ours names the option."""
    failures = []
    for each in numeric():
        for number in sorted(each.numbers()):
            found = read(each.name, str(number))
            if isinstance(found, str):
                # Java refuses it too, or ours has bounds of its own, which it says.
                named = re.match(rf"option (kafka\.)?{re.escape(each.name)}(=-?\d+ |: `)", found)
                bounded = any(words in found for words in ("out of bounds", "must be less than", "must be >="))
                if not (named and bounded) or "Configuration property" in found:
                    failures.append((each.name, number, found))
            else:
                failures += [(each.name, number, wrong) for wrong in [unusable(found)] if wrong]
    assert failures == []


def unusable(options: SourceOptions) -> str:
    """Why a client can't be made with these options: the driver's, a reading one, or our own."""
    conf = {name: value for name, value in options.kafka.items() if name != "bootstrap.servers"}
    try:
        clients.new_consumer(conf).close()
        assert isinstance(clients.new_admin(conf), AdminClient)
        Consumer(settings_of(conf)).close()
        FetchClient(settings_of(conf), ClusterClient(conf), columns=KAFKA_ROW, batch_bytes=1, on_error=print).close()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        return repr(error)
    return ""


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("request.timeout.ms", "600000", "=600000 is out of bounds: librdkafka takes whole numbers, 10 to 300000"),
        ("fetch.min.bytes", "0", "=0 is out of bounds: librdkafka takes whole numbers, 1 to"),
        ("fetch.min.bytes", "5k", "=5k is out of bounds: librdkafka takes whole numbers"),
        (
            "connections.max.idle.ms",
            str(2**63 - 1),
            "is out of bounds: librdkafka takes whole numbers, 0 to 2147483647",
        ),
        ("fetch.max.bytes", "1", ": `fetch.max.bytes` must be >= `message.max.bytes`"),
    ],
)
def test_what_librdkafka_has_bounds_for(name: str, value: str, words: str) -> None:
    """One error that names the option as given, and the bounds."""
    error = read(name, value)
    assert isinstance(error, str) and error.startswith(f"option kafka.{name}") and words in error


def names_of_librdkafka() -> list[str]:
    """The names of all its settings: what looks like one in the library, and is one."""
    (library,) = (Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*")
    texts = re.findall(rb"(?<=\0)[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*(?=\0)", library.read_bytes())
    return [name for name in sorted({text.decode() for text in texts}) if is_librdkafkas(name)]


def test_every_setting_of_librdkafka_is_known() -> None:
    """Its own names are as good as Java's: taken, or refused for what they would do, never for a name that nobody has."""
    names = names_of_librdkafka()
    assert len(names) > 150
    assert {"queued.min.messages", "ssl.sigalgs.list", "debug"} <= set(names)
    assert [name for name in names if "unknown" in str(read(name, "5"))] == []
    # What our own client does with each is a decision, not left to chance: else a harmless one sends a user to the slow reader.
    assert [name for name in names if name not in ROWS and is_text(name)] == []


def is_text(name: str) -> bool:
    """Whether it can be given as an option: neither a call-back nor a pointer."""
    try:
        Consumer({"group.id": "g", "log_level": 0, name: "5"}).close()
    except KafkaException as error:
        return not re.search("through dedicated|not settable", str(error))
    except (TypeError, ValueError):
        return False
    return True


def test_a_trust_store_that_is_gone_is_kafkas_error_where_records_are_read() -> None:
    """As any other setting that librdkafka refuses, by its option's name."""
    with pytest.raises(KafkaException, match=r"kafka\.ssl\.truststore\.location: /no/such\.p12"):
        by_librdkafka({"ssl.truststore.location": "/no/such.p12", "security.protocol": "ssl"}, columns=KAFKA_ROW)
