"""The one table of Kafka's settings: a row for every name known anywhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from sparkcohort.runtime.shell.options.kafka_settings import (
    OTHER_LOGINS_BEGIN,
    ROWS,
    SETTINGS,
    Fate,
    OurClient,
    names,
)
from sparkcohort.runtime.shell.options.kafka_translate import in_librdkafkas_words
from sparkcohort.runtime.shell.options.security_settings import is_sensitive
from sparkcohort.runtime.shell.options.table import BY_KEY, KAFKA_ALIASES
from tests.kit.kafka_settings import is_librdkafkas
from tests.kit.sources import nodes

HERE = Path(__file__).resolve()


def known(*kinds: OurClient) -> set[str]:
    """The names with which our own client does one of these."""
    return {row.name for row in SETTINGS if row.our_client in kinds}


def test_every_name_has_one_row() -> None:
    """In alphabetical order, so that a second one is seen."""
    assert [row.name for row in SETTINGS] == sorted(ROWS)


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


def test_every_setting_that_the_source_names_has_a_row() -> None:
    """Whatever text in ``runtime`` or ``streaming`` is a setting of librdkafka's, wherever it stands."""
    root = HERE.parents[3]
    files = [path for folder in ("cli", "runtime", "streaming") for path in (root / folder).rglob("*.py")]
    constants = (node for path in files for node in nodes(path) if isinstance(node, ast.Constant))
    texts = {node.value for node in constants if isinstance(node.value, str)}
    dotted = sorted(text.removeprefix("kafka.") for text in texts if re.fullmatch(r"[a-z]+(\.[a-z0-9_]+)+", text))
    assert "fetch.max.bytes" in dotted
    assert [name for name in dotted if name not in ROWS and is_librdkafkas(name)] == []
