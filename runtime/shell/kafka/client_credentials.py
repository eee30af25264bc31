"""Tokens by client credentials: a client's id and secret at a token endpoint (RFC 6749, 4.4; KIP-768), as librdkafka asks.

An endpoint that says nothing for ``LIMIT_S`` has given no answer, and an answer has ``MOST_BYTES``; ``tokens`` paces the questions
and asks again before a token ends.  No redirect is followed: it would carry the secret elsewhere.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import SplitResult, quote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener, getproxies

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.options.redaction import REDACTED
from sparkcohort.runtime.shell.options.token_settings import CLIENT_ID, CLIENT_SECRET, ENDPOINT
from sparkcohort.runtime.text import printable

LIMIT_S = 20.0  # librdkafka's
MOST_BYTES: Final = 1 << 20
_SCOPE, _EXTENSIONS, _SUBJECT = (
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.sub.claim.name",
)
_CA_LOCATION, _CA_PEM = "https.ca.location", "https.ca.pem"
_MOST_SHOWN: Final = 300


def client_credentials(settings: Mapping[str, str]) -> tuple[str, float, str, Mapping[str, str]]:
    """A token of ``sasl.oauthbearer.client.id``, its end in seconds since 1970, whose it is, and the extensions of the login.

    Raises CohortError, which names the endpoint or the option, and no secret.
    """
    url = urlsplit(settings[ENDPOINT].strip())
    url = url._replace(netloc=url.netloc.rpartition("@")[2])
    place = url._replace(query="", fragment="").geturl()
    pair = base64.b64encode(f"{settings[CLIENT_ID]}:{settings[CLIENT_SECRET]}".encode()).decode()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {pair}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    # librdkafka sends the scope as it is, so some have it encoded already; Java encodes it.
    scope = quote(settings.get(_SCOPE, "").strip(), safe="%")
    body = "grant_type=client_credentials" + (f"&scope={scope}" if scope else "")
    asked_at = time.time()
    try:
        status, data = _post(url, body, headers, _trusted(settings))
    except (OSError, HTTPException, ValueError) as error:
        words = str(error) or type(error).__name__
        raise CohortError(f"{place} gave no answer ({words}): see kafka.{ENDPOINT}") from None
    answer = _json(data)
    if status != 200 or not isinstance(answer.get("access_token"), str):
        words = printable(" ".join(str(answer[name]) for name in ("error", "error_description") if name in answer))
        raise CohortError(
            f"{place} gave no token (HTTP {status} {words[:_MOST_SHOWN].replace(pair, REDACTED)}): see kafka.{ENDPOINT}, "
            f"kafka.{CLIENT_ID} and its secret, kafka.{_SCOPE}"
        )
    return (answer["access_token"], *_life_and_subject(answer, settings, place, asked_at), _extensions(settings))


def _life_and_subject(
    answer: Mapping[str, Any], settings: Mapping[str, str], place: str, asked_at: float
) -> tuple[float, str]:
    """By the token's own claims; an opaque one ends when the endpoint says so."""
    try:
        claims = _claims(answer["access_token"])
    except ValueError:
        claims = {}
    try:
        ends = float(claims["exp"]) if "exp" in claims else asked_at + float(answer["expires_in"])
    except (KeyError, TypeError, ValueError):
        raise CohortError(f"{place} gave a token without an end: neither exp in it nor expires_in beside it") from None
    subject = claims.get(settings.get(_SUBJECT) or "sub", "")
    return ends, subject if isinstance(subject, str) else ""


def _claims(token: str) -> Mapping[str, Any]:
    """What a JSON web token claims, unchecked.  Raises ValueError for what is none."""
    body = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except RecursionError:
        raise ValueError from None
    return claims if isinstance(claims, dict) else {}


def _extensions(settings: Mapping[str, str]) -> dict[str, str]:
    """``name=value,name=value``, as librdkafka has them (KIP-342)."""
    pairs = [pair.strip() for pair in settings.get(_EXTENSIONS, "").split(",") if pair.strip()]
    if not all("=" in pair for pair in pairs):
        raise CohortError(f"option kafka.{_EXTENSIONS} must be name=value,name=value")
    return dict(pair.split("=", 1) for pair in pairs)


def _json(data: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(data) if len(data) <= MOST_BYTES else None
    except (ValueError, RecursionError):  # a proxy's page, say
        answer = None
    return answer if isinstance(answer, dict) else {}


# --- HTTP -----------------------------------------------------------------------------------------


def _trusted(settings: Mapping[str, str]) -> ssl.SSLContext:
    """The authorities of ``https.ca.*``, else the system's; raises CohortError."""
    location, pem = settings.get(_CA_LOCATION, ""), settings.get(_CA_PEM, "")
    location = "" if location == "probe" else location
    try:
        if location and Path(location).is_dir():
            return ssl.create_default_context(capath=location)
        return ssl.create_default_context(cafile=location or None, cadata=pem or None)
    except (OSError, ValueError):
        name = _CA_LOCATION if location else _CA_PEM
        raise CohortError(f"option kafka.{name}: no certificates in PEM that can be read here") from None


class _NoRedirect(HTTPRedirectHandler):
    """A redirect is an answer without a token."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


def _post(url: SplitResult, body: str, headers: Mapping[str, str], trusted: ssl.SSLContext) -> tuple[int, bytes]:
    """The status and at most one byte more than ``MOST_BYTES``; by the proxy of the environment, if it has one.

    Raises OSError, HTTPException, ValueError.
    """
    proxies = getproxies()
    for_all = {scheme: proxies["all"] for scheme in ("http", "https") if "all" in proxies}
    opener = build_opener(ProxyHandler(for_all | proxies), HTTPSHandler(context=trusted), _NoRedirect)
    try:
        response = opener.open(Request(url.geturl(), body.encode(), dict(headers)), timeout=LIMIT_S)  # noqa: S310  see token_settings
    except HTTPError as error:
        response = error
    with response:
        return response.status, response.read(MOST_BYTES + 1)
