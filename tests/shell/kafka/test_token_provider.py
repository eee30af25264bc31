"""What a user's function may return, what is said of one that doesn't, and AWS's signer with made-up credentials."""

from __future__ import annotations

import base64
import sys
import threading
import time
import types
from collections.abc import Mapping
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.kafka import tokens
from sparkcohort.runtime.shell.kafka.msk_iam import msk_iam
from sparkcohort.runtime.shell.kafka.token_provider import NoToken, make_token
from sparkcohort.runtime.shell.kafka.tokens import TokenSource
from sparkcohort.tokens import msk_iam as shipped
from tests.kit.waiting import wait_until

NOW = 1_800_000_000.0
SECRET = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."
NAME = "tests.shell.kafka.provided:made"
answer: Any = None


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's whose function does as the test says."""
    module = types.ModuleType("provided_by_a_user")

    def made(settings: Mapping[str, str]) -> Any:
        return answer(settings) if callable(answer) else answer

    module.made, module.number = made, 1  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "provided_by_a_user", module)


def made(what: Any, settings: Mapping[str, str] | None = None, former: str = "") -> Any:
    """What becomes of this answer of the function."""
    global answer  # noqa: PLW0603
    answer = what
    return make_token("provided_by_a_user:made", settings or {}, NOW, former)


def test_what_a_function_may_return() -> None:
    """Token and end; principal and extensions where the broker wants them; it gets settings that it can't change."""
    token = made((SECRET, NOW + 60))
    assert (token.value, token.ends, token.principal, token.extensions) == (SECRET, NOW + 60, "", {})
    whole = made(("abc", int(NOW) + 60, "me", {"logicalCluster": "lkc-1"}))
    assert (whole.principal, whole.extensions) == ("me", {"logicalCluster": "lkc-1"})
    assert SECRET not in repr(token)
    got: list[Mapping[str, str]] = []

    def keep(settings: Mapping[str, str]) -> tuple[str, float]:
        got.append(settings)
        return "abc", NOW + 1

    made(keep, {"bootstrap.servers": "b:1"})
    assert dict(got[0]) == {"bootstrap.servers": "b:1"}
    with pytest.raises(TypeError):
        got[0]["x"] = "y"  # type: ignore[index]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (None, "got `null`"),
        ((SECRET,), "length 2, got 1"),
        ((SECRET.encode(), NOW + 9), "Expected `str`, got `bytes` - at `$[0]`"),
        ((f"Bearer {SECRET}", NOW + 9), "without the word Bearer"),
        (("a" * 300_000, NOW + 9), "of length <= 262144"),
        ((SECRET, float("nan")), "Expected `float`"),
        ((SECRET, NOW * 1000), "in seconds since 1970"),
        ((SECRET, NOW - 90), "has ended 90 s ago"),
        ((SECRET, NOW + 9, "me", {"auth": "c"}), "at `key` in `$[3]`"),
        ((SECRET, NOW + 9, "me", {"a": "\x01auth=x"}), "at `$[3][...]`"),
    ],
)
def test_rubbish(what: Any, words: str) -> None:
    """The error names the option and the shape, and quotes nothing of what was returned."""
    with pytest.raises(NoToken) as raised:
        made(what)
    assert "option kafka.sasl.oauthbearer.provider=provided_by_a_user:made returned" in str(raised.value)
    assert words in str(raised.value)
    assert "eyJ" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:f", "cannot be imported on"),
        ("provided_by_a_user:missing", "cannot be imported on"),
        ("provided_by_a_user:number", "is a int: name a function"),
    ],
)
def test_no_function(name: str, words: str) -> None:
    """Not to be found here, or nothing that can be called."""
    with pytest.raises(NoToken, match=words) as raised:
        make_token(name, {}, NOW)
    assert not raised.value.retryable


def test_what_a_function_raises_is_told_without_secrets() -> None:
    """Of the settings, of addresses and forms, and whatever looks like a token; the rest is what helps."""
    former = "opaque-and-short"

    def fail(_settings: Mapping[str, str]) -> None:
        raise ValueError(
            f"401 from https://id.example.org/t?client_secret=hunter2&x=1 with {SECRET}, {former}, s3cret, "
            f"Authorization: Bearer abc, wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEYwJalr, file /var/run/secrets/my/service"
        )

    with pytest.raises(NoToken) as raised:
        made(fail, {"sasl.oauthbearer.client.secret": "s3cret"}, former)
    text = str(raised.value)
    assert raised.value.retryable
    for secret in ("hunter2", "eyJ", former, "s3cret", "Bearer abc", "wJalr"):
        assert secret not in text
    for told in ("raised ValueError: 401 from https://id.example.org/t?client_secret=", "/var/run/secrets/my/service"):
        assert told in text


def test_a_function_that_never_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits is told after his time; it is called once, and what it brings in the end is taken."""
    global answer  # noqa: PLW0603
    monkeypatch.setattr(tokens, "CALL_S", 0.5)
    goes_on, calls = threading.Event(), []

    def block(_settings: Mapping[str, str]) -> tuple[str, float]:
        calls.append(1)
        goes_on.wait(30)
        return "abc", time.time() + 60

    answer = block
    source = TokenSource("provided_by_a_user:made", {})
    with pytest.raises(NoToken, match="has not returned for"):
        source.token(0.5)
    wait_until(lambda: "has not returned" in str(source.failure()), 10, "the call to be late by its own clock")
    goes_on.set()
    assert source.token(10).value == "abc"
    assert len(calls) == 1


def test_it_is_called_ever_more_slowly_and_only_as_long_as_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the least pause and twice as long; then nobody asks any more, and it is left alone."""
    global answer  # noqa: PLW0603
    at: list[float] = []
    pause_s = 0.2
    monkeypatch.setattr(tokens, "LEAST_PACE_S", pause_s)

    def fail(_settings: Mapping[str, str]) -> None:
        at.append(time.monotonic())
        raise SystemExit

    answer = fail
    source = TokenSource("provided_by_a_user:made", {})
    with pytest.raises(NoToken, match="raised SystemExit"):
        source.token(patience_s=4 * pause_s)
    assert all(later - sooner >= pause_s * 2**n for n, (sooner, later) in enumerate(pairwise(at)))
    wait_until(lambda: time.monotonic() > at[0] + 16 * pause_s, 20, "the time of two more")
    assert len(at) <= 4, "the one that was asked for when patience ended"


def test_those_who_wait_do_not_wake_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two calls that fail they look at the clock a few times, not thousands."""
    global answer
    looks, clock = list[float](), time.time

    def look() -> float:
        looks.append(clock())
        return looks[-1]

    def fail(_settings: Mapping[str, str]) -> None:
        raise ConnectionError

    def wait() -> None:
        with pytest.raises(NoToken):
            source.token(patience_s=2)

    answer, source = fail, TokenSource("provided_by_a_user:made", {})
    monkeypatch.setattr(time, "time", look)
    waiting = [threading.Thread(target=wait) for _ in range(3)]
    for each in waiting:
        each.start()
    for each in waiting:
        each.join(30)
    assert len(looks) < 300


def test_a_clock_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a token's end, as where the host resumes: the next comes soon.  Back again: a refused one is replaced within seconds."""
    monkeypatch.setattr(tokens, "MOST_PACE_S", 0.5)
    ahead_s, made_at, clock = [0.0], list[float](), time.time
    monkeypatch.setattr(time, "time", lambda: clock() + ahead_s[0])

    def two_hours(_settings: Mapping[str, str]) -> tuple[str, float]:
        made_at.append(time.time())
        return f"token{len(made_at)}", made_at[-1] + 7200

    monkeypatch.setattr(sys.modules["provided_by_a_user"], "two_hours", two_hours, raising=False)
    source = TokenSource("provided_by_a_user:two_hours", {})  # "made" may be called for a test before, a last time
    assert source.token(20).value == "token1"
    assert source.token(20).value == "token1"
    ahead_s[0] = 7300
    assert source.token(20).value == "token2"
    ahead_s[0] = 0
    source.doubt(source.token(20))
    wait_until(lambda: source.token(20).value == "token3", 20, "another token")


def iam(monkeypatch: pytest.MonkeyPatch, servers: str, config: str = "", **env: str) -> str:
    """The address that is signed, with credentials that are made up."""
    made_up = {
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (made_up | env).items():
        monkeypatch.setenv(name, value)
    token = make_token(
        "sparkcohort.tokens:msk_iam", {"bootstrap.servers": servers, "sasl.oauthbearer.config": config}, 0
    )
    assert 600 < token.ends - time.time() <= 900
    return base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode()


@pytest.mark.parametrize(
    ("servers", "config", "env", "region"),
    [
        ("b-1.orders.a1b2.c2.kafka.us-east-1.amazonaws.com:9098", "", {}, "us-east-1"),
        ("boot-x.c3.kafka-serverless.eu-central-1.amazonaws.com:9098", "", {}, "eu-central-1"),
        ("b-1.o.x.c2.kafka.cn-north-1.amazonaws.com.cn:9098,b-2:9098", "", {}, "cn-north-1"),
        ("b-1.o.x.c2.kafka.us-east-1.amazonaws.com:9098", "awsRegion=eu-west-3", {}, "eu-west-3"),
        ("proxy.example.org:9098", "", {"AWS_REGION": "ap-south-1"}, "ap-south-1"),
    ],
)
def test_a_token_for_msk(
    monkeypatch: pytest.MonkeyPatch, servers: str, config: str, env: dict[str, str], region: str
) -> None:
    """A signed request to connect, for the region of the brokers; nobody is asked over the network."""
    signed = urlparse(iam(monkeypatch, servers, config, **env))
    fields = parse_qs(signed.query)
    assert signed.netloc == f"kafka.{region}.amazonaws.com"
    assert fields["Action"] == ["kafka-cluster:Connect"]
    assert fields["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert f"/{region}/kafka-cluster/aws4_request" in fields["X-Amz-Credential"][0]
    assert len(fields["X-Amz-Signature"][0]) == 64


def test_what_msk_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A region, options that there are; a profile is read from AWS's own file."""
    assert shipped is msk_iam
    with pytest.raises(NoToken, match="does not tell a region"):
        iam(monkeypatch, "proxy.example.org:9098")
    for config in ("region=eu-west-1", "awsRegion='eu"):
        with pytest.raises(CohortError, match="option kafka.sasl.oauthbearer.config is malformed".replace(".", r"\.")):
            iam(monkeypatch, "b:1", config)
    with pytest.raises(CohortError, match="let the profile name the role"):
        iam(monkeypatch, "b:1", "awsRoleArn=r awsProfileName=p")
    (tmp_path / "credentials").write_text("[my own]\naws_access_key_id = AKIDOTHER\naws_secret_access_key = x\n")
    signed = iam(
        monkeypatch,
        "b:1",
        "awsRegion=eu-west-1 'awsProfileName=my own'",
        AWS_SHARED_CREDENTIALS_FILE=str(tmp_path / "credentials"),
    )
    assert "AKIDOTHER" in signed
