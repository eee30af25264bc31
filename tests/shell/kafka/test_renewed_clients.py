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
from sparkcohort.runtime.shell.options.certificate_files import ChangedFiles
from sparkcohort.runtime.shell.options.connection_settings import Settings
from sparkcohort.runtime.shell.options.kafka_settings import translate
from sparkcohort.runtime.shell.options.late_values import are_read, with_values
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.certificates import Authority

NOBODY = "127.0.0.1:1"
LEAST = {"kafka.bootstrap.servers": NOBODY, "subscribe": "t", "group.id": "g"}
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "config.providers": "dir",
    "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
}
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
    return lambda: foreign.owners_of(frozenset({TP}))


def layouts(conf: dict[str, str]) -> Look:
    """Looks for partitions."""
    return Discovery(replace(parse(LEAST), kafka=conf)).again


def ends(conf: dict[str, str]) -> Look:
    """Asks where logs end."""
    return KeptClient(conf).get


class Secret:
    """A password's own file, which nobody may read for a moment: neither the file nor what is known of it is another then."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self.locked, real = directory / "password", False, Path.open
        self.file.write_text("the-first")
        given = LEAST | {f"kafka.{name}": value for name, value in LOGIN.items()}
        given["kafka.sasl.password"] = f"${{dir:{directory}:password}}"
        self.conf = dict(parse(given).kafka)

        def opened(path: Path, *more: Any, **named: Any) -> Any:
            if self.locked and path == self.file:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return real(path, *more, **named)

        monkeypatch.setattr(Path, "open", opened)

    def renew(self, value: str) -> None:
        """Another file of this name, that can't be read yet."""
        new = self.file.with_name("new")
        new.write_text(value)
        new.rename(self.file)
        self.locked = True

    def value(self) -> str:
        """As a client would have it that is made now."""
        return str(with_values(self.conf)["sasl.password"])


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


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("looking", LOOKING)
def test_a_secret_that_cannot_be_read_yet_is_no_change_yet(
    looking: Callable[[dict[str, str]], Look],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No client is made of the one before it, however often somebody looks, and one line says why; then one of the new one."""
    secret, made = Secret(tmp_path, monkeypatch), Clients(monkeypatch)
    look = looking(secret.conf)
    look()
    secret.renew("the-second")
    for _ in range(3):
        look()
    assert made.made == 1
    assert sum("are not taken up" in line for line in caplog.messages) == 1
    secret.locked = False
    for _ in range(2):
        look()
    assert made.made == 2


def test_who_needs_a_client_has_one_of_the_secret_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is none while the new secret can't be read; it gives way to another as soon as it can be."""
    secret = Secret(tmp_path, monkeypatch)
    kept = RenewedClient[str](secret.conf)
    assert kept.get(secret.value) == "the-first"
    kept.release()
    secret.renew("the-second")
    assert [kept.get(secret.value) for _ in range(2)] == ["the-first"] * 2
    secret.locked = False
    assert kept.get(secret.value) == "the-second"


def test_a_client_is_let_go_of_when_another_would_have_the_new_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The membership's, and that of hand-overs; also where it was made while the secret couldn't be read."""
    secret, released = Secret(tmp_path, monkeypatch), list[str]()
    early = ChangedFiles(secret.conf)
    assert secret.value() == "the-first"
    secret.renew("the-second")
    late = ChangedFiles(secret.conf)
    for files in (early, late, early):
        files.let_go(lambda: released.append(secret.value()))
    assert released == []
    secret.locked = False
    for files in (early, late, early, late):
        files.let_go(lambda: released.append(secret.value()))
    assert released == ["the-second"] * 2


def test_what_an_earlier_look_finds_late_is_not_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow thread comes back with the secret of before, after another one has read the new one."""
    secret, real = Secret(tmp_path, monkeypatch), translate.in_librdkafkas_words
    new = tmp_path / "new"

    def overtaken(java: Mapping[str, str]) -> Any:
        monkeypatch.setattr(translate, "in_librdkafkas_words", real)
        new.write_text("the-second")
        new.rename(secret.file)
        assert are_read(secret.conf)
        return real(java)

    monkeypatch.setattr(translate, "in_librdkafkas_words", overtaken)
    assert secret.value() == "the-first"
    secret.locked = True
    assert secret.value() == "the-second"


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


def test_our_own_connections_of_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What TLS goes by is read anew when the password in a file is, not while it can't be; also where that was so from the start."""
    secret = Secret(tmp_path, monkeypatch)
    secret.conf["security.protocol"] = "sasl_ssl"
    early = Settings.of(secret.conf)
    secret.renew("the-second")
    late = Settings.of(secret.conf)
    before = [each.tls for each in (early, late)]
    assert [each.tls for each in (early, late)] == before
    assert sum("are not taken up" in line for line in caplog.messages) == 1
    secret.locked = False
    after = [each.tls for each in (early, late)]
    assert not any(new is old for new, old in zip(after, before, strict=True))
    assert [each.tls for each in (early, late)] == after


def test_what_an_administrator_cannot_be_made_of_is_told_without_secrets() -> None:
    """As of a consumer: librdkafka quotes a value that it doesn't take."""
    conf = {"bootstrap.servers": NOBODY, "sasl.password": "hunter2", "debug": "hunter2"}
    with pytest.raises(KafkaException) as told:
        clients.new_admin(conf)
    assert "[redacted]" in clients.text_of(told.value) and "hunter2" not in clients.text_of(told.value)
    assert clients.code_of(told.value) == KafkaError._INVALID_ARG
