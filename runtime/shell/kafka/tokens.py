"""Tokens to log in with (SASL/OAUTHBEARER, KIP-255): one for each provider and process, shared by all of its Kafka clients.

One thread calls the provider: when a client needs the first token, and again before the token ends as long as clients ask
for it.  A caller never runs the user's function itself, so that a function which never returns holds up nobody for longer than
he is ready to wait, and there is one such call at most.  A provider that fails is tried again ever more slowly; the token
that there is is used until it ends.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from sparkcohort.runtime.shell.kafka.token_provider import LoginToken, NoToken, make_token
from sparkcohort.runtime.shell.options.token_settings import PROVIDER

log = logging.getLogger("sparkcohort.tokens")

CALL_S: Final = 30.0  # how long a call may take before the callers that wait get an error
ANSWER_S: Final = 1.0  # for librdkafka, which asks again after ten seconds
PATIENCE_S: Final = 30.0  # how long tasks wait for a provider that fails
RENEW: Final = (0.70, 0.78)  # of its life after which a token is renewed, before librdkafka asks for another at 0.8
LEAST_PACE_S, MOST_PACE_S = 1.0, 10.0  # between two calls that fail
LOOK_S: Final = 1.0
REPEAT_S: Final = 30.0  # between two warnings
# The settings by which a provider knows the cluster that the token is for.
_CLUSTER: Final = ("bootstrap.servers", "security.protocol", "https.ca.location", "https.ca.pem")
_LOGIN: Final = "sasl.oauthbearer."

_sources: dict[tuple[str, frozenset[tuple[str, str]]], TokenSource] = {}
_lock = threading.Lock()


class TokenSource:
    """One provider's tokens; every method may be called from any thread."""

    def __init__(self, name: str, login: Mapping[str, str]) -> None:
        """``name`` is the option's value; the function gets the settings of ``login``.

        Nothing is called before the first question.
        """
        self._name, self._login = name, dict(login)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._token: LoginToken | None = None
        self._in_demand = False  # since the token that there is was made, or since the last failure without one
        self._renew_at = 0.0  # by the wall clock, as tokens are
        self._failure: NoToken | None = None  # of the last call
        self._failures = 0
        self._made_at = 0.0  # monotonic, as is all below
        self._next_at = 0.0  # when the function may be called again
        self._called_at: float | None = None  # the call that is on its way
        self._told_at = float("-inf")

    def token(self, limit_s: float = CALL_S, patience_s: float = 0.0) -> LoginToken:
        """A token that is good now; waits for a call at most ``limit_s``, and through failures of the function ``patience_s``.

        Raises NoToken.
        """
        began = time.monotonic()
        with self._changed:
            while True:
                waited_s = time.monotonic() - began
                failure = self._resting_with()
                if failure is not None and (waited_s >= patience_s or not failure.retryable):
                    raise failure
                self._ask()
                token = self._good()
                if token is not None:
                    return token
                if waited_s >= max(limit_s, patience_s):
                    raise self._failure or self._late(waited_s)
                self._changed.wait(min(LOOK_S, max(limit_s, patience_s) - waited_s))

    def failure(self) -> NoToken | None:
        """Why there is no token that is good; None where there is one, or the first call is under way."""
        with self._changed:
            if self._good() is not None:
                return None
            since_s = time.monotonic() - self._called_at if self._called_at is not None else 0.0
            return self._late(since_s) if since_s >= CALL_S else self._failure

    def doubt(self, refused: LoginToken) -> None:
        """A broker has refused this token before its end: another one is made, but no more often than where that fails."""
        with self._changed:
            if refused is self._token:
                self._in_demand = True
                self._renew_at = time.time() + self._made_at + MOST_PACE_S - time.monotonic()
                self._changed.notify_all()

    def oauth_cb(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """As confluent-kafka asks for it, in a thread of librdkafka's that a client's end waits for."""
        token = self.token(ANSWER_S)
        return token.value, token.ends, token.principal, dict(token.extensions)

    # --- under the lock ------------------------------------------------------------------------------

    def _good(self) -> LoginToken | None:
        return self._token if self._token is not None and self._token.ends > time.time() else None

    def _ask(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="cohort-tokens", daemon=True)
            self._thread.start()
        if not self._in_demand:  # once: callers that wait here would wake each other without end
            self._in_demand = True
            self._changed.notify_all()

    def _resting_with(self) -> NoToken | None:
        """Why there is no token, until the function may be called again."""
        rests = self._called_at is None and time.monotonic() < self._next_at
        return self._failure if rests and self._good() is None else None

    def _late(self, seconds: float) -> NoToken:
        return NoToken(
            f"option kafka.{PROVIDER}={self._name} has not returned for {seconds:.0f} s: give what it asks a time-out",
            retryable=True,
        )

    def _due_s(self) -> float:
        """In how many seconds the function is to be called; inf as long as no token is needed."""
        if not self._in_demand:
            return float("inf")
        wait_s = 0.0 if self._good() is None else self._renew_at - time.time()
        return max(wait_s, self._next_at - time.monotonic())

    # --- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while (due_s := self._due_s()) > 0:
                    # The wait knows of no step of the wall clock, and of no sleep of the host.
                    self._changed.wait(min(due_s, LOOK_S) if self._in_demand else None)
                self._called_at = time.monotonic()
                former = self._token.value if self._token is not None else ""
            try:
                token = make_token(self._name, self._login, time.time(), former)
            except NoToken as error:
                self._take_failure(error)
            except BaseException as error:  # noqa: BLE001  sys.exit() in the user's function: its text is not ours to show
                words = f"option kafka.{PROVIDER}={self._name} raised {type(error).__name__}"
                self._take_failure(NoToken(words, retryable=True))
            else:
                self._take_token(token)

    def _take_token(self, token: LoginToken) -> None:
        now = time.time()
        with self._changed:
            self._token, self._failure, self._failures = token, None, 0
            self._in_demand, self._made_at = False, time.monotonic()
            self._renew_at = now + random.uniform(*RENEW) * (token.ends - now)  # noqa: S311  not all executors at once
            self._next_at = time.monotonic() + LEAST_PACE_S
            self._called_at = None
            self._changed.notify_all()

    def _take_failure(self, error: NoToken) -> None:
        with self._changed:
            now, self._called_at = time.monotonic(), None
            pace_s = min(LEAST_PACE_S * 2.0 ** min(self._failures, 10), MOST_PACE_S)
            self._failure, self._failures, self._next_at = error, self._failures + 1, now + pace_s
            token = self._good()
            if token is not None and now >= self._told_at + REPEAT_S:
                self._told_at = now
                left_s = token.ends - time.time()
                log.warning("the token in use ends in %.0f s and can't be renewed yet: %s", left_s, error)
            self._in_demand = token is not None  # a caller that still needs one asks again
            self._changed.notify_all()


def source_of(conf: Mapping[str, Any]) -> TokenSource | None:
    """This process' tokens for a client with these settings; None where they name no provider."""
    name = str(conf.get(PROVIDER, ""))
    if not name:
        return None
    login = {
        key: str(value)
        for key, value in conf.items()
        if key in _CLUSTER or (key.startswith(_LOGIN) and key != PROVIDER)
    }
    key = (name, frozenset(login.items()))
    with _lock:
        if key not in _sources:
            _sources[key] = TokenSource(name, login)
        return _sources[key]


def failure_of(conf: Mapping[str, Any]) -> NoToken | None:
    """Why a client with these settings has nothing to log in with; None where it has, or needs no token."""
    source = source_of(conf)
    return source.failure() if source is not None else None


def with_tokens(conf: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as confluent-kafka takes them: with a callback where they name a provider, whose first token is there.

    The library serves it in a thread of its own, polled or not, and waits for the first token in steps of a second.
    Raises NoToken.
    """
    source = source_of(conf)
    if source is None:
        return dict(conf)
    source.token()
    return {name: value for name, value in conf.items() if name != PROVIDER} | {"oauth_cb": source.oauth_cb}


def await_token(conf: Mapping[str, Any], patience_s: float = PATIENCE_S) -> None:
    """Have a token at hand where one is needed; a provider that fails is waited for.  Raises NoToken."""
    source = source_of(conf)
    if source is not None:
        source.token(patience_s=patience_s)
