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
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, SETTINGS, Fate
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
            assert [warning for warning in found.warnings if "counts as" in warning] == []


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
                named = re.match(rf"option (kafka\.)?{re.escape(each.name)}=-?\d+ ", found)
                bounded = "out of bounds" in found or "must be less than" in found
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
    ("name", "value", "taken", "words"),
    [
        ("request.timeout.ms", "600000", {"socket.timeout.ms": "300000"}, "librdkafka takes 10 to 300000"),
        ("fetch.min.bytes", "0", {"fetch.min.bytes": "1"}, "kafka.fetch.min.bytes=0 counts as 1"),
        ("connections.max.idle.ms", "-1", {"connections.max.idle.ms": "0"}, ""),
        ("connections.max.idle.ms", str(2**63 - 1), {"connections.max.idle.ms": "2147483647"}, "counts as 2147483647"),
        ("fetch.max.bytes", "1", {"fetch.max.bytes": "1000000"}, "kafka.message.max.bytes"),
        ("retry.backoff.ms", "0", {"retry.backoff.ms": "1"}, "counts as 1"),
        ("receive.buffer.bytes", "-1", {"socket.receive.buffer.bytes": "0"}, ""),
        (
            "reconnect.backoff.ms",
            "20000",
            {"reconnect.backoff.ms": "20000", "reconnect.backoff.max.ms": "20000"},
            "",
        ),
        ("reconnect.backoff.max.ms", "20", {"reconnect.backoff.ms": "20", "reconnect.backoff.max.ms": "20"}, ""),
    ],
)
def test_what_librdkafka_has_bounds_for(name: str, value: str, taken: dict[str, str], words: str) -> None:
    """The nearest that it takes, with one word that names the option as given; nothing where the meaning is the same."""
    options = read(name, value)
    assert isinstance(options, SourceOptions)
    assert taken.items() <= options.kafka.items()
    assert [words in warning and f"kafka.{name}" in warning for warning in options.warnings] == [True] * bool(words)


def test_the_bounds_are_librdkafkas() -> None:
    """As the installed one says itself."""
    for row in SETTINGS:
        if row.most is None or row.least is None:
            continue
        name = row.becomes[0] if row.becomes else row.name
        for number in (row.least, row.most):
            Consumer({"group.id": "g", "log_level": 0, "message.max.bytes": 1000, **beside(name, number)}).close()
        for number in {row.least - 1, row.most + 1} - {2**31, -1}:
            with pytest.raises(KafkaException, match="range"):
                Consumer({"group.id": "g", name: number})


def beside(name: str, number: int) -> dict[str, int]:
    """The setting, with the other of its pair where librdkafka compares them."""
    if name == "reconnect.backoff.ms":
        return {name: number, "reconnect.backoff.max.ms": 3_600_000}
    if name == "reconnect.backoff.max.ms":
        return {name: number, "reconnect.backoff.ms": 0}
    return {name: max(number, 1000) if name == "fetch.max.bytes" else number}


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
