"""Certificates that are renewed in a moment in which no client can be made: they are taken up as soon as one can."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.kafka.cluster_messages import AnyQuestion, MetadataQuestion, OffsetsQuestion
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.librdkafka_questions import LibrdkafkaQuestions
from sparkcohort.runtime.shell.options.connection_settings import TransportError
from tests.kit.certificates import Authority

NOBODY = "127.0.0.1:1"


def test_a_client_of_librdkafkas_is_made_of_changed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file doesn't change again, and the next question takes it up all the same, also where none could be made at first."""
    authority, made = Authority(tmp_path), 0
    ends, cluster = OffsetsQuestion({}, committed=False), MetadataQuestion(["t"])
    refused, real = KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE, "full")), clients.new_admin
    is_full = False

    def make(conf: Mapping[str, Any]) -> Any:
        nonlocal made
        made += 1
        if is_full:
            raise refused
        return real({**conf, "log_level": "0"})

    monkeypatch.setattr(clients, "new_admin", make)
    client = LibrdkafkaQuestions({"bootstrap.servers": NOBODY, "ssl.ca.location": str(authority.path)})

    def counted(question: AnyQuestion) -> int:
        with suppress(TransportError):
            client.answer(question, None, 0.1)
        return made

    assert [counted(ends), counted(ends)] == [1, 1]
    authority.path.write_text(authority.pem + "\n")
    is_full = True
    assert [counted(ends), counted(ends)] == [2, 3]
    is_full = False
    assert [counted(ends), counted(ends)] == [4, 4]
    assert [counted(cluster), counted(ends)] == [4, 5], "nobody has told who the brokers are: the client may be stuck"


def test_what_an_administrator_cannot_be_made_of_is_told_without_secrets() -> None:
    """As of a consumer: librdkafka quotes a value that it doesn't take."""
    conf = {"bootstrap.servers": NOBODY, "sasl.password": "hunter2", "debug": "hunter2"}
    with pytest.raises(KafkaException) as told:
        clients.new_admin(conf)
    assert "[redacted]" in clients.text_of(told.value) and "hunter2" not in clients.text_of(told.value)
    assert clients.code_of(told.value) == KafkaError._INVALID_ARG
