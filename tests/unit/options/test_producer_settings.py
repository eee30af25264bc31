"""``kafka.*`` options of a producer: taken, translated, or refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.kafka_settings import ROWS, OurClient
from sparkcohort.runtime.shell.options.producer_settings import (
    ALIASES,
    IDLE,
    NUMBERS,
    REFUSALS,
    WORDS,
    ProducerSettings,
)
from tests.kit.kafka_settings import producer_settings

SERVERS = {"bootstrap.servers": "broker:9092"}


def _parse(**options: str) -> ProducerSettings:
    return ProducerSettings.parse({**SERVERS, **{name.replace("_", "."): value for name, value in options.items()}})


def test_every_setting_of_kafkas_producer_is_known() -> None:
    """It has a row here, or one among those of connections that is not refused for a reason of the source's."""
    own = {*NUMBERS, *WORDS, *REFUSALS, *IDLE}
    assert {row.name for row in producer_settings() if row.name not in own and row.name not in ROWS} == set()


def test_defaults_are_kafkas() -> None:
    """But for larger batches, a longer linger, and a transaction that may last as long as brokers allow; bounds are within Java's."""
    java = {row.name: row for row in producer_settings()}
    assert {name for name, row in NUMBERS.items() if str(row.default) != java[name].default} == {
        "batch.size", "compression.lz4.level", "linger.ms", "transaction.timeout.ms",
    }  # fmt: skip
    assert _parse().acks == -1
    assert _parse().idempotent


def test_librdkafkas_names_of_producers_are_known() -> None:
    """All that the source's table lists."""
    names = {name for name, row in ROWS.items() if row.our_client is OurClient.PRODUCERS}
    assert names - {*NUMBERS, *WORDS, *ALIASES, *REFUSALS, *IDLE} == set()


def test_values_are_read() -> None:
    """By Kafka's names and librdkafka's, logins beside them."""
    settings = _parse(
        acks="1", batch_size="1000", compression_type="ZSTD", compression_zstd_level="7", linger_ms="0", security_protocol="SSL",
        message_timeout_ms="60000",
    )  # fmt: skip
    assert (settings.acks, settings.idempotent, settings.batch_bytes, settings.codec, settings.level) == (
        1,
        False,
        1000,
        4,
        7,
    )
    assert (settings.linger_s, settings.delivery_s) == (0.0, 60.0)
    assert settings.connection == {**SERVERS, "security.protocol": "ssl"}
    assert settings.librdkafka_reason == ""
    kerberos = {"security.protocol": "sasl_plaintext", "sasl.mechanisms": "GSSAPI"}
    assert ProducerSettings(connection=kerberos).librdkafka_reason == "the SASL mechanism GSSAPI"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acks": "0"}, "kafka.acks=0 is not supported"),
        ({"acks": "2"}, "kafka.acks=2 is none of all, -1, 1"),
        ({"acks": "1", "enable.idempotence": "true"}, "leave one out"),
        ({"compression.type": "brotli"}, "none of none, gzip"),
        ({"batch.size": "16k"}, "kafka.batch.size=16k is out of bounds"),
        ({"linger.ms": "5", "queue.buffering.max.ms": "6"}, "mean the same and differ"),
        ({"delivery.timeout.ms": "1000"}, "kafka.delivery.timeout.ms=1000 is less than"),
        (
            {"transactional.id": "x"},
            "kafka.transactional.id is not supported: each task has transactional ids of its own",
        ),
        ({"partitioner.class": "a.B"}, "kafka.partitioner.class is not supported"),
        ({"value.serializer": "a.B"}, "kafka.value.serializer is not supported"),
        ({"bacth.size": "1"}, "kafka.bacth.size is unknown"),
    ],
)
def test_what_is_refused(options: dict[str, str], words: str) -> None:
    """By name, with what to do."""
    with pytest.raises(OptionError) as raised:
        ProducerSettings.parse({**SERVERS, **options})
    assert words in str(raised.value)


def test_what_has_no_effect_is_said() -> None:
    """Once, with the reason."""
    assert _parse(group_id="g").warnings == ("option kafka.group.id has no effect: it is a consumer's setting",)


@given(name=st.sampled_from(sorted(NUMBERS)), text=st.text(max_size=12) | st.integers(-(2**70), 2**70).map(str))
def test_any_number_is_taken_or_refused(name: str, text: str) -> None:
    """By name."""
    try:
        ProducerSettings.parse({**SERVERS, name: text})
    except OptionError as error:
        assert f"kafka.{name}" in str(error)
