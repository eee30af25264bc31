"""Certificates that are renewed in a moment in which no client can be made: they are taken up as soon as one can."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver import discovery, foreign_members, racks
from sparkcohort.runtime.shell.driver.discovery import Discovery
from sparkcohort.runtime.shell.driver.foreign_members import ForeignMembers
from sparkcohort.runtime.shell.driver.list_offsets import KeptClient
from sparkcohort.runtime.shell.driver.racks import NodeRacks
from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.renewed_client import RenewedClient
from sparkcohort.runtime.shell.kafka.topic_ids import TopicIds
from sparkcohort.runtime.shell.options.connection_settings import Settings
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.certificates import Authority

NOBODY = "127.0.0.1:1"
LEAST = {"kafka.bootstrap.servers": NOBODY, "subscribe": "t", "group.id": "g"}
TP = TopicPartition("t", 0)
Look = Callable[[], object]


class Clients:
    """Makes them as ever, unless there is no room; knows how many it has made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self.made = self.refused = 0
        self._patch(monkeypatch, "new_admin", KafkaException(KafkaError(KafkaError._CRIT_SYS_RESOURCE, "full")))
        self._patch(monkeypatch, "new_consumer", CohortError("the Kafka client cannot be made now: full"))

    def _patch(self, monkeypatch: pytest.MonkeyPatch, name: str, error: Exception) -> None:
        real = getattr(clients, name)

        def make(conf: Mapping[str, Any], *more: Any) -> Any:
            if self.full:
                self.refused += 1
                raise error
            self.made += 1
            return real({**conf, "log_level": "0"}, *more)

        monkeypatch.setattr(clients, name, make)


def topic_ids(conf: dict[str, str]) -> Look:
    """Asks for ids."""
    ids = TopicIds(conf)
    return lambda: ids.of(["t"], 0.1)


def node_racks(conf: dict[str, str]) -> Look:
    """Asks for racks."""
    asked = NodeRacks(conf)
    return lambda: asked.of({TP: [1]})


def members(conf: dict[str, str]) -> Look:
    """Asks who is in the group."""
    foreign = ForeignMembers(conf, "g", "cohort-g", 30_000)
    return foreign.everybody


def layouts(conf: dict[str, str]) -> Look:
    """Looks for partitions."""
    return Discovery(replace(parse(LEAST), kafka=conf)).again


def ends(conf: dict[str, str]) -> Look:
    """Asks where logs end."""
    return KeptClient(conf).get


@pytest.fixture
def short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for who isn't there, and only who is looked at asks."""
    monkeypatch.setattr(racks, "ANSWER_S", 0.1)
    monkeypatch.setattr(foreign_members, "REACH_S", 0.1)
    monkeypatch.setattr(discovery, "LOOK_TIMEOUT_S", 0.1)
    looking = request.node.callspec.params["looking"]
    monkeypatch.setattr(TopicIds, "ask", TopicIds.ask if looking is topic_ids else lambda *_: {})


LOOKING = [topic_ids, node_racks, members, layouts, ends]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("looking", LOOKING)
def test_a_change_is_seen_again(
    looking: Callable[[dict[str, str]], Look], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file doesn't change again, and the next look takes it up all the same; nobody but who looks makes clients."""
    made, authority = Clients(monkeypatch), Authority(tmp_path)
    look = looking({"bootstrap.servers": NOBODY, "ssl.ca.location": str(authority.path)})
    for _ in range(2):
        look()
    assert made.made == 1
    authority.path.write_text(authority.pem + "\n")
    made.full = True
    for tries in (1, 2):
        look()
        assert (made.made, made.refused) == (1, tries)
    made.full = False
    for _ in range(2):
        look()
    assert made.made == 2


def test_the_client_that_is_there_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One line for each state of the files; where there is no client yet the error is the caller's."""
    file, kept = tmp_path / "ca.pem", RenewedClient[str]({"ssl.ca.location": str(tmp_path / "ca.pem")})

    def fail() -> str:
        raise CohortError(f"not now: {file.read_text()}")

    file.write_text("one")
    with pytest.raises(CohortError, match="not now: one"):
        kept.get(fail)
    assert (kept.get(lambda: "first"), kept.get(fail)) == ("first", "first")
    for words in ("another", "the third one"):
        file.write_text(words)
        assert [kept.get(fail) for _ in range(3)] == ["first"] * 3
    assert [line.rpartition(": ")[2] for line in caplog.messages] == ["another", "the third one"]
    assert (kept.get(lambda: "second"), kept.get(fail)) == ("second", "second")
    kept.release()
    assert (kept.client, kept.get(lambda: "third")) == (None, "third")


def test_our_own_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """For want of a descriptor the certificates are not read: the next connection tries again."""
    authority = Authority(tmp_path)
    conf = {"security.protocol": "ssl", "ssl.ca.location": str(authority.path), "ssl.ca.pem": authority.pem}
    settings = Settings.of(conf)
    before, real = settings.tls, os.memfd_create

    def none_left(*_: Any) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "memfd_create", none_left)
    authority.path.write_text(authority.pem + "\n")
    for _ in range(3):
        assert settings.tls is before
    assert sum("are not taken up" in line for line in caplog.messages) == 1
    monkeypatch.setattr(os, "memfd_create", real)
    after = settings.tls
    assert after is not before
    assert settings.tls is after


def test_what_an_administrator_cannot_be_made_of_is_told_without_secrets() -> None:
    """As of a consumer: librdkafka quotes a value that it doesn't take."""
    conf = {"bootstrap.servers": NOBODY, "sasl.password": "hunter2", "debug": "hunter2"}
    with pytest.raises(KafkaException) as told:
        clients.new_admin(conf)
    assert "[redacted]" in clients.text_of(told.value) and "hunter2" not in clients.text_of(told.value)
    assert clients.code_of(told.value) == KafkaError._INVALID_ARG
