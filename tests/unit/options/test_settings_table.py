"""The one table of Kafka's settings: a row for every name known anywhere, and what the tables before it said."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException

from sparkcohort.runtime.shell.options.kafka_settings import (
    OTHER_LOGINS_BEGIN,
    ROWS,
    SETTINGS,
    Fate,
    OurClient,
    column,
    names,
)
from sparkcohort.runtime.shell.options.kafka_translate import in_librdkafkas_words
from sparkcohort.runtime.shell.options.security_settings import is_sensitive
from sparkcohort.runtime.shell.options.table import BY_KEY, KAFKA_ALIASES
from tests.kit.sources import nodes

HERE = Path(__file__).resolve()
FORMER: dict[str, Any] = json.loads((HERE.parent / "former_kafka_tables.json").read_text())


def whys(fate: Fate) -> dict[str, str]:
    """The reasons of a fate by name."""
    return {row.name: row.reason for row in SETTINGS if row.fate is fate}


def known(*kinds: OurClient) -> set[str]:
    """The names with which our own client does one of these."""
    return {row.name for row in SETTINGS if row.our_client in kinds}


def test_every_name_has_one_row() -> None:
    """In alphabetical order, so that a second one is seen."""
    assert [row.name for row in SETTINGS] == sorted(ROWS)


def test_every_name_that_a_former_table_had_has_a_row() -> None:
    """Keys, members and what they became, of all of them."""
    stores = {name for pair in FORMER["security_settings.STORES"] for name in pair}
    renamed = {*FORMER["kafka_settings.RENAMED"].values(), *FORMER["security_settings._RENAMED"].values()} - {""}
    others = {name for table, names in FORMER.items() if table != "security_settings.STORES" for name in names}
    assert len(others) > 180
    assert sorted((others | stores | renamed) - ROWS.keys()) == []


def test_what_the_tables_of_translation_said() -> None:
    """Refused and idle ones with their reasons, new names, stores, aliases and options of our own."""
    refused = FORMER["kafka_settings.REFUSED"] | FORMER["security_settings.REFUSED"]
    assert refused.items() <= whys(Fate.REFUSED).items()
    javas = "it configures Java's security machinery, librdkafka has its own"
    idle = FORMER["kafka_settings.NO_EFFECT"] | dict.fromkeys(FORMER["security_settings.NO_EFFECT"], javas)
    assert idle.items() <= whys(Fate.NO_EFFECT).items()
    renamed = {row.name: row.becomes for row in SETTINGS if row.fate is Fate.RENAMED}
    former = FORMER["kafka_settings.RENAMED"] | FORMER["security_settings._RENAMED"]
    assert {old: (new,) for old, new in former.items() if new}.items() <= renamed.items()
    assert list(names(Fate.DROPPED)) == [old for old, new in former.items() if not new]
    assert [pair for pair in FORMER["security_settings.STORES"] if pair[1] not in ROWS[pair[0]].becomes] == []
    assert sorted(KAFKA_ALIASES) == sorted(FORMER["table.KAFKA_ALIASES"])
    assert sorted(names(Fate.OPTION)) == FORMER["table.OPTIONS"]


def test_what_the_tables_of_secrets_and_of_our_client_said() -> None:
    """Those that our client was told elsewhere are now known as honoured or as none of its business."""
    assert sorted(row.name for row in SETTINGS if row.secret) == FORMER["security_settings.SENSITIVE"]
    assert {row.name: list(row.our_values) for row in SETTINGS if row.our_values} == FORMER["connection_settings._ONLY"]
    assert sorted(known(OurClient.PRODUCERS)) == FORMER["connection_settings._OF_PRODUCERS"]
    connecting = {*FORMER["connection_settings._HONOURED"], *FORMER["connection_settings._ONLY"]}
    assert connecting <= known(OurClient.HONOURED)
    assert {*connecting, *FORMER["connection_settings._OF_OTHERS"]} <= known(OurClient.HONOURED, OurClient.INDIFFERENT)


def test_what_the_tables_of_our_clients_values_said() -> None:
    """The driver's clients, its consumers, those that read, and the question whether a leader answers."""
    driver, forced = column(lambda row: row.driver), column(lambda row: row.driver_forced)
    assert driver == FORMER["clients._QUICK"]
    assert driver | column(lambda row: row.driver_consumer) | forced == FORMER["clients._SMALL"]
    assert sorted(row.name for row in SETTINGS if row.consumers_only) == FORMER["clients._CONSUMER_ONLY"]
    assert column(lambda row: row.reading) == FORMER["record_source._DEFAULTS"]
    assert column(lambda row: row.reading_forced) == FORMER["record_source._FORCED"]
    assert column(lambda row: row.reading_unhurried) == FORMER["record_source.UNHURRIED"]
    assert column(lambda row: row.probing) == FORMER["leader_probe._SIZES"]


def test_a_row_says_nothing_that_contradicts_itself() -> None:
    """Reasons where something is refused or idle, new names where it becomes another, and every new name has a row."""
    assert [row.name for row in SETTINGS if bool(row.reason) != (row.fate in (Fate.REFUSED, Fate.NO_EFFECT))] == []
    assert [row.name for row in SETTINGS if (len(row.becomes) == 1) < (row.fate is Fate.RENAMED)] == []
    assert [row.name for row in SETTINGS if row.becomes and row.fate not in (Fate.RENAMED, Fate.TRANSLATED)] == []
    assert [name for row in SETTINGS for name in (*row.becomes, row.alias_of) if name and name not in ROWS] == []
    assert [row.name for row in SETTINGS if row.our_values and row.our_client is not OurClient.HONOURED] == []
    other = known(OurClient.OTHER_LOGINS)
    assert other == {name for name in other if name.startswith(OTHER_LOGINS_BEGIN)}


def test_only_secrets_are_hidden_but_for_one_that_looks_like_one() -> None:
    """The pattern catches what has no row yet, and the id beside a secret of the same prefix; a row hides in any case."""
    hidden = [row.name for row in SETTINGS if is_sensitive(row.name) and not row.secret]
    assert hidden == ["sasl.oauthbearer.client.credentials.client.id"]
    assert [row.name for row in SETTINGS if row.secret and not is_sensitive(row.name)] == []


def test_our_own_options_are_in_their_table() -> None:
    """``kafka.NAME`` as an option of its own, and what is another name of NAME."""
    assert [name for name in names(Fate.OPTION) if f"kafka.{name}" not in BY_KEY] == []
    assert [name for name in KAFKA_ALIASES if name not in BY_KEY] == []


def test_two_names_of_a_secret_that_differ_are_an_error() -> None:
    """Also of those that are about security: which one counted was left to chance."""
    with pytest.raises(Exception, match=r"kafka\.ssl\.key\.pem and kafka\.ssl\.keystore\.key mean the same and differ"):
        in_librdkafkas_words({"ssl.keystore.key": one_line("a"), "ssl.key.pem": one_line("b")})


def one_line(data: str) -> str:
    """A key as people put it into a properties file."""
    return f"-----BEGIN PRIVATE KEY----- {data} -----END PRIVATE KEY-----"


def is_librdkafkas(name: str) -> bool:
    """Whether the installed librdkafka has a setting of this name."""
    try:
        Consumer({"group.id": "g", "log_level": 0, name: "no value"}).close()
    except KafkaException as error:
        return "No such configuration property" not in str(error)
    return True


def test_every_setting_that_the_source_names_has_a_row() -> None:
    """Whatever text in ``runtime`` or ``streaming`` is a setting of librdkafka's, wherever it stands."""
    root = HERE.parents[3]
    files = [path for folder in ("cli", "runtime", "streaming") for path in (root / folder).rglob("*.py")]
    constants = (node for path in files for node in nodes(path) if isinstance(node, ast.Constant))
    texts = {node.value for node in constants if isinstance(node.value, str)}
    dotted = sorted(text.removeprefix("kafka.") for text in texts if re.fullmatch(r"[a-z]+(\.[a-z0-9_]+)+", text))
    assert "fetch.max.bytes" in dotted
    assert [name for name in dotted if name not in ROWS and is_librdkafkas(name)] == []
