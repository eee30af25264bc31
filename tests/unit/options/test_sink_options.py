"""The options of a write: what it takes, and what is refused with what to do."""

from __future__ import annotations

import pickle

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.shell.options.parse_sink import parse_sink
from sparkcohort.runtime.shell.options.table import OPTIONS
from tests.kit.options import LEAST

BROKERS = {"kafka.bootstrap.servers": "b1:9092"}
READS_ONLY = [option.name for option in OPTIONS if not option.writes and option.status != "refused"]


def refused(**more: str) -> str:
    """The message with which a write with these options is refused; ``__`` stands for a dot."""
    with pytest.raises(OptionError) as caught:
        parse_sink({**BROKERS, **{name.replace("__", "."): value for name, value in more.items()}})
    return str(caught.value)


def test_the_least_options_are_enough() -> None:
    """Brokers; in any case, with what Spark hands on of its own, and what Spark's sink takes beside it."""
    assert parse_sink(BROKERS) == parse_sink(
        {"KAFKA.Bootstrap.Servers": "b1:9092", "checkpointLocation": "/tmp/c", "queryName": "q"}
    )
    options = parse_sink({**BROKERS, "topic": " billed ", "includeHeaders": "true", "kafka.acks": "1"})
    assert (options.topic, options.producer.acks, options.kafka_names) == (
        "billed", 1, ("kafka.acks", "kafka.bootstrap.servers")
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  our own


@pytest.mark.parametrize("name", READS_ONLY)
def test_what_is_read_is_refused(name: str) -> None:
    """Each option of reads, by its name; a family by one of its names."""
    text = refused(**{name.replace("*", "x"): "1"})
    assert name.endswith("*") or text.startswith(f"option {name} is for reads only")


def test_a_topic_to_write_is_no_option_of_reads() -> None:
    """And the other way round."""
    with pytest.raises(OptionError, match="option topic is for writes only: subscribe names the topics to read"):
        parse({**LEAST, "topic": "billed"})


def test_refusals_name_option_and_remedy() -> None:
    """Brokers that are missing, names that nobody has, topics that are none."""
    with pytest.raises(OptionError, match=r"option kafka\.bootstrap\.servers is missing"):
        parse_sink({"topic": "billed"})
    assert "did you mean topic?" in refused(topics="billed")
    assert "written with the prefix: kafka.linger.ms" in refused(linger__ms="5")
    assert "topic the one to write to" in refused(path="billed")
    for name in ("", "a b", "..", "x" * 250):
        assert refused(topic=name).startswith("option topic=")
    assert "includeHeaders='yes' must be true or false" in refused(includeHeaders="yes")
    assert "kafka.partitioner.class is not supported" in refused(kafka__partitioner__class="org.example.Mine")


FORMATS = {
    "schema": ({"value__format": "json", "value__schema": "id INT"}, "has the column's fields: leave it out"),
    "avro": (
        {"value__format": "avro", "value__subject": "s"},
        "value.subject has no effect with value.format=avro without",
    ),
    "json": ({"key__format": "json", "key__schema__registration": "lookup"}, "key.schema.registration has no effect"),
    "binary": ({"value__timezone": "UTC"}, "value.timezone has no effect with value.format=binary"),
    "protobuf": ({"value__format": "protobuf"}, "needs value.schema and value.message"),
    "version": (
        {"value__format": "avro", "value__schema__version": "3", "schema__registry__url": "http://sr:8081"},
        "set value.schema.registration to lookup and leave value.schema out",
    ),
    "choice": ({"value__format": "xml"}, "value.format"),
    "name": ({"format": "json"}, "did you mean value.format, or key.format?"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_options_of_formats_that_do_nothing(name: str) -> None:
    """Each is refused with what to do."""
    more, text = FORMATS[name]
    assert text in refused(**more)


EXACTLY_ONCE = {"delivery__guarantee": "exactly-once", "sink__id": "billed-totals"}
NOT_EXACTLY_ONCE = {
    "no id": ({"sink__id": ""}, "option sink.id is missing: delivery.guarantee=exactly-once wants a name"),
    "id": ({"sink__id": "billed/totals"}, "option sink.id='billed/totals' is not valid: letters, digits"),
    "long id": ({"sink__id": "x" * 250}, "is not valid: letters, digits, '.', '_', '-', 249 at most"),
    "state topic": ({"sink__state__topic": "a b"}, "option sink.state.topic='a b' is not valid"),
    "app id": ({"txn__app__id": "nightly"}, "options txn.app.id and txn.version go together"),
    "version": ({"txn__version": "1"}, "options txn.app.id and txn.version go together"),
    "no number": ({"txn__app__id": "nightly", "txn__version": "one"}, "txn.version"),
    "acks": ({"kafka__acks": "1"}, "wants kafka.acks=all and kafka.enable.idempotence=true: leave both out"),
    "idempotence": ({"kafka__enable__idempotence": "false"}, "wants kafka.acks=all and kafka.enable.idempotence=true"),
    "guarantee": ({"delivery__guarantee": "at-most-once"}, "delivery.guarantee"),
    "time-out": ({"kafka__transaction__timeout__ms": "0"}, "option kafka.transaction.timeout.ms=0 is out of bounds"),
    "transactional id": ({"kafka__transactional__id": "mine"}, "which begin with sink.id"),
    "login": (
        {"kafka__security__protocol": "SSL", "kafka__ssl__curves__list": "X25519"},
        "exactly-once is not supported with this login: the setting ssl.curves.list; use at-least-once",
    ),
}


@pytest.mark.parametrize("name", NOT_EXACTLY_ONCE)
def test_what_exactly_once_refuses(name: str) -> None:
    """Each by the option's name, with what to do."""
    more, text = NOT_EXACTLY_ONCE[name]
    assert text in refused(**{**EXACTLY_ONCE, **more})


@pytest.mark.parametrize(
    ("name", "value"),
    [("sink.id", "billed"), ("sink.state.topic", "states"), ("txn.app.id", "nightly"), ("txn.version", "1")],
)
def test_options_of_exactly_once_need_the_guarantee(name: str, value: str) -> None:
    """By default, and where at-least-once is asked for: nothing that is set goes without effect."""
    for guarantee in ({}, {"delivery__guarantee": "at-least-once"}):
        text = refused(**guarantee, **{name.replace(".", "__"): value})
        assert text == f"option {name} needs delivery.guarantee=exactly-once: set it, or leave {name} out"


def test_exactly_once_is_taken() -> None:
    """By default it is at least once; else with Kafka's longest time-out, which can be set."""
    assert not parse_sink(BROKERS).is_exactly_once
    exactly_once = {**BROKERS, "delivery.guarantee": "exactly-once", "sink.id": "billed-totals"}
    options = parse_sink(exactly_once)
    assert (options.is_exactly_once, options.state_topic, options.app_id, options.app_version) == (
        True, "cohort-sink-state", "", None,
    )  # fmt: skip
    assert options.producer.transaction_ms == 900_000
    more = {"txn.app.id": "nightly", "txn.version": "7", "kafka.transaction.timeout.ms": "60000"}
    options = parse_sink({**exactly_once, **more})
    assert (options.app_id, options.app_version, options.producer.transaction_ms) == ("nightly", 7, 60_000)
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  our own


def test_formats_of_writes() -> None:
    """Avro needs no schema, a registry's password is in no text, and one without use gives a warning."""
    secret = {"schema.registry.url": "http://sr:8081", "schema.registry.basic.auth.user.info": "me:hidden"}
    options = parse_sink({**BROKERS, **secret, "value.format": "avro", "value.schema.registration": "lookup"})
    assert (options.value.lookup, options.value.records.schema, options.key.of_structs, options.warnings) == (
        True,
        "",
        False,
        (),
    )
    assert "hidden" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301  our own
    assert parse_sink({**BROKERS, **secret}).warnings[0].startswith("option schema.registry.url has no effect")
