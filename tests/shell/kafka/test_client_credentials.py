"""Client credentials at a token endpoint (OIDC): every kind of client logs in with their tokens, and goes on behind their end."""

from __future__ import annotations

import json
import logging
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import client_credentials as oidc
from sparkcohort.runtime.shell.kafka import clients, tokens
from sparkcohort.runtime.shell.kafka.fetch.record_source import RecordSource
from sparkcohort.runtime.shell.kafka.token_provider import NoToken
from sparkcohort.runtime.shell.options.parse import parse
from tests.kit.broker import Broker
from tests.kit.certificates import Authority
from tests.kit.polled import fetching, poll_for, read_to
from tests.kit.produce import produce
from tests.kit.record_sources import by_librdkafka
from tests.kit.token_endpoint import SECRET, TokenEndpoint
from tests.kit.waiting import wait_until

LEAST = {"subscribe": "t", "group.id": "g"}


def conf_of(endpoint: TokenEndpoint, bootstrap: str = "127.0.0.1:1", **more: str) -> dict[str, str]:
    """What the options of a query come to."""
    return dict(parse(LEAST | endpoint.options(bootstrap, **more)).kafka)


def trusting(folder: Path) -> tuple[Path, Authority]:
    """A file with an endpoint's key and certificate, and who signed it."""
    authority = Authority(folder)
    path = folder / "endpoint.pem"
    path.write_text(authority.identity("127.0.0.1").pem())
    return path, authority


def test_all_kinds_of_clients_log_in(guarded: Broker, topic: str, tmp_path: Path) -> None:
    """Our own client reads, beside the plain consumer and an administrator; one question for all of them."""
    guarded.admin.create_topic(topic)
    guarded.admin.allow("alice", "topic", topic, "read", "describe")
    produce(guarded.bootstrap, topic, 10)
    tls, authority = trusting(tmp_path)
    with TokenEndpoint(tls=tls) as endpoint:
        trust = {"https__ca__location": str(authority.path)}
        conf = conf_of(endpoint, guarded.at["SASL_PLAINTEXT"], sasl__oauthbearer__scope="a b", **trust)
        for kind in (RecordSource, by_librdkafka):
            with fetching(conf, TopicPartition(topic, 0), kind=kind) as source:
                read_to(source, 10)
        assert topic in clients.new_admin(conf).list_topics(topic, timeout=20).topics
        ((headers, form),) = endpoint.requests
        assert form == {"grant_type": "client_credentials", "scope": "a b"}
        assert headers["Content-Type"] == "application/x-www-form-urlencoded"


def asked(endpoint: TokenEndpoint, **more: str) -> tuple[str, float, str, Any]:
    """A token by these options."""
    return oidc.client_credentials(conf_of(endpoint, **more))


def test_what_a_token_comes_with() -> None:
    """Its own end and subject, the claim that is named for it, and extensions as librdkafka has them."""
    with TokenEndpoint() as endpoint:
        before = time.time()
        value, ends, principal, extensions = asked(
            endpoint, sasl__oauthbearer__extensions="logicalCluster=lkc-1, pool=a=b"
        )
        assert (principal, dict(extensions)) == ("alice", {"logicalCluster": "lkc-1", "pool": "a=b"})
        assert before + 290 < ends < time.time() + 310
        assert value.count(".") == 2
        assert asked(endpoint, sasl__oauthbearer__sub__claim__name="iat")[2] == ""
        endpoint.answer = 200, json.dumps({"access_token": "opaque", "expires_in": 60}).encode()
        value, ends, principal, _ = asked(endpoint)
        assert (value, principal) == ("opaque", "")
        assert before + 59 < ends < time.time() + 61
        asked(endpoint, sasl__oauthbearer__scope="api%3A%2F%2Fkafka/.default")
        assert endpoint.requests[-1][1]["scope"] == "api://kafka/.default"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((503, b"<html>busy"), "HTTP 503"),
        ((302, b""), "HTTP 302"),
        ((400, b'{"error": "invalid_scope", "error_description": "no\\nsuch"}'), "HTTP 400 invalid_scope no"),
        ((200, b"[]"), "gave no token (HTTP 200"),
        ((200, b"[" * 200_000), "gave no token (HTTP 200"),
        ((200, b'{"access_token": 7}'), "gave no token (HTTP 200"),
        ((200, b'{"access_token": "x"}'), "without an end"),
        ((200, b'{"access_token": "x", "expires_in": []}'), "without an end"),
        ((200, b'{"access_token": "' + b"x" * (2 << 20) + b'", "expires_in": 9}'), "gave no token (HTTP 200"),
    ],
)
def test_an_endpoint_that_gives_none(answer: tuple[int, bytes], words: str) -> None:
    """What it said stands on one line, with its address; it isn't followed elsewhere, and not asked for more than there is room."""
    with TokenEndpoint() as endpoint:
        endpoint.answer = answer
        with pytest.raises(CohortError) as error:
            asked(endpoint)
        assert words in str(error.value)
        assert endpoint.url in str(error.value)
        assert str(error.value).isprintable()
        assert len(endpoint.requests) == 1


def test_an_endpoint_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that says nothing: the error names it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with TokenEndpoint() as endpoint:
        endpoint.url = f"http://user:hidden@127.0.0.1:{port}/token"
        with pytest.raises(CohortError, match=f"http://127.0.0.1:{port}/token gave no answer .*refused"):
            asked(endpoint)
        monkeypatch.setattr(oidc, "LIMIT_S", 0.2)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            endpoint.url = f"http://127.0.0.1:{silent.getsockname()[1]}/token"
            with pytest.raises(CohortError, match=r"gave no answer .*timed out"):
                asked(endpoint)


def test_whom_https_trusts(tmp_path: Path) -> None:
    """A file, a folder or PEM of ``https.ca.*``; by itself none of ours, and not what brokers are trusted by."""
    tls, authority = trusting(tmp_path)
    with TokenEndpoint(tls=tls) as endpoint:
        assert asked(endpoint, https__ca__location=str(authority.path))[0]
        assert asked(endpoint, https__ca__pem=authority.pem)[0]
        for trust in ({}, {"ssl__ca__location": str(authority.path)}):
            with pytest.raises(CohortError, match="CERTIFICATE_VERIFY_FAILED"):
                asked(endpoint, **trust)
        conf = conf_of(endpoint, https__ca__location=str(authority.path))
        with pytest.raises(CohortError, match=r"option kafka\.https\.ca\.location: no certificates"):
            oidc.client_credentials(conf | {"https.ca.location": str(tmp_path / "gone.pem")})


def test_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As librdkafka's HTTP client has it: the request goes there whole, unless no_proxy names the endpoint."""
    with TokenEndpoint() as proxy, TokenEndpoint() as endpoint:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/token"))
        monkeypatch.setenv("no_proxy", "")
        endpoint.url = "http://id.example.invalid/token"
        assert asked(endpoint)[0]
        assert len(proxy.requests) == 1
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        endpoint.url = proxy.url
        assert asked(endpoint)[0]


def test_a_secret_that_is_wrong(guarded: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """Refused by the endpoint, which quotes the login: neither error nor log has it, and it is asked at a pace."""
    with TokenEndpoint() as endpoint, caplog.at_level(logging.DEBUG):
        conf = conf_of(
            endpoint, guarded.at["SASL_PLAINTEXT"], sasl__oauthbearer__client__secret="Wr0ng-Secret-of-alice"
        )
        with fetching(conf, TopicPartition("t", 0)) as source:
            complains = lambda: source.poll(0.1) or "invalid_client" in source.last_error  # noqa: E731
            wait_until(complains, 60, "a complaint", every_s=0)
            with pytest.raises(NoToken, match="HTTP 401 invalid_client") as error:
                tokens.await_token(conf, patience_s=0)
            poll_for(lambda: source.poll(0.1), 3)
            assert len(endpoint.requests) <= 6
        blob = endpoint.requests[0][0]["Authorization"].removeprefix("Basic ")
    for text in (str(error.value), source.last_error, caplog.text):
        assert SECRET not in text
        assert "Wr0ng-Secret" not in text
        assert blob not in text
