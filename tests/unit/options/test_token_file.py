"""Tokens in a file, in Java's words: ``FileJwtRetriever`` (KIP-1139), and an endpoint ``file:`` of Kafka's handler."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.shell.options.connection_settings import unsupported
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse
from sparkcohort.tokens import token_file
from tests.kit.options import LEAST
from tests.kit.tokens import token

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
SECURE = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
FILE = {ENDPOINT: "file:///var/run/secrets/kafka%20token"}
RETRIEVER = {"sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.FileJwtRetriever"}
HANDLER = {
    "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
    "sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
}


def given(kafka: dict[str, str]) -> SourceOptions:
    """The least options and these ``kafka.*`` ones."""
    return parse(LEAST | {f"kafka.{name}": value for name, value in kafka.items()})


@pytest.mark.parametrize("kafka", [FILE, FILE | HANDLER, FILE | RETRIEVER, FILE | HANDLER | RETRIEVER])
def test_javas_settings_name_our_function(kafka: dict[str, str]) -> None:
    """It needs nothing of librdkafka's, so our own client logs in by it."""
    options = given(SECURE | kafka)
    assert options.kafka["sasl.oauthbearer.provider"] == "sparkcohort.tokens:token_file"
    assert unsupported(options.kafka) == ""


def test_a_retriever_without_a_file() -> None:
    """The option that has to name it is named."""
    for kafka in (RETRIEVER, RETRIEVER | {ENDPOINT: "https://id.example.org/token"}):
        with pytest.raises(
            OptionError, match=rf"^option kafka\.{ENDPOINT} must name the file with the token, file:///"
        ):
            given(SECURE | kafka)


def test_the_token_and_its_end(tmp_path: Path) -> None:
    """As they stand in the file now, by the token's own claims."""
    path = tmp_path / "kafka token"
    settings = {ENDPOINT: f"file://{tmp_path}/kafka%20token"}
    for ends in (2_000_000_000.0, 2_000_000_060.0):
        made = token("alice", ends)
        path.write_text(f"{made}\n")
        assert token_file(settings) == (made, ends)


@pytest.mark.parametrize("text", ["", "opaque", "a.b.c", "a.e30.c", "ÿ"])
def test_no_token_in_the_file(tmp_path: Path, text: str) -> None:
    """The file is named, and nothing of what is in it."""
    (tmp_path / "token").write_text(text)
    with pytest.raises(
        CohortError, match=r"there is no JSON web token with an end \(exp\) in /.*/token: have a function"
    ):
        token_file({ENDPOINT: f"file:{tmp_path}/token"})
    with pytest.raises(CohortError, match=r"/gone can't be read here \(No such file or directory\): mount it"):
        token_file({ENDPOINT: f"file:{tmp_path}/gone"})


def test_a_file_beyond_what_brokers_take(tmp_path: Path) -> None:
    """Its beginning is no token; a file of that length may be one."""
    path, most = tmp_path / "token", 256 << 10
    made = token("alice", 2_000_000_000.0)
    path.write_text(made + "s" * (most - len(made)))
    assert len(token_file({ENDPOINT: f"file:{path}"})[0]) == most
    path.write_text(made + "s" * (most - len(made)) + "\n")
    with pytest.raises(CohortError, match=rf"^{path} has more than {most} bytes, the most of a token"):
        token_file({ENDPOINT: f"file:{path}"})
