"""Tokens that another program puts into a file and renews there, as Kubernetes does for a pod's service account (KIP-1139)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.options.token_settings import ENDPOINT

_MOST: Final = 256 << 10
_OWN: Final = "have a function of yours read it: kafka.sasl.oauthbearer.provider=package.module:function"


def token_file(settings: Mapping[str, str]) -> tuple[str, float]:
    """The JSON web token in the file of ``sasl.oauthbearer.token.endpoint.url``, and its end in seconds since 1970.

    What Java's ``FileJwtRetriever`` does.  The signature is the broker's to check.  Raises CohortError, which names the file.
    """
    path = unquote(urlsplit(settings[ENDPOINT]).path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST + 1)
        token = data.decode("ascii").strip() if len(data) <= _MOST else None
    except OSError as error:
        raise CohortError(f"{path} can't be read here ({error.strerror}): mount it for driver and executors") from None
    except ValueError:
        token = ""
    if token is None:
        raise CohortError(f"{path} has more than {_MOST} bytes, the most of a token that brokers take: {_OWN}")
    return token, _end(path, token)


def _end(path: str, token: str) -> float:
    """When the token ends, by its own claims."""
    try:
        return float(claims_of(token)["exp"])
    except (KeyError, TypeError, ValueError):
        raise CohortError(f"there is no JSON web token with an end (exp) in {path}: {_OWN}") from None


def claims_of(token: str) -> Mapping[str, Any]:
    """What a JSON web token claims, unchecked.  Raises ValueError for what is none."""
    body = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except RecursionError:
        raise ValueError from None
    return claims if isinstance(claims, dict) else {}
