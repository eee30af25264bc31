"""The user's function that makes tokens (``kafka.sasl.oauthbearer.provider``): found, called, and what it returns checked.

Nothing of a token gets into an error: of what the function returns only types are told, and of what it raises the words
without whatever looks like a token.
"""

from __future__ import annotations

import importlib
import math
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, cast

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.options.redaction import REDACTED
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.text import printable

PROVIDER: Final = "sasl.oauthbearer.provider"
MOST_TOKEN: Final = 256 << 10  # half of what a broker takes (sasl.server.max.receive.size)
MOST_EXTENSIONS: Final = 32
_MILLISECONDS: Final = 1e11  # as seconds, the year 5138
_SHAPE: Final = "(token, end in seconds since 1970) or (token, end, principal, extensions)"
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750's b64token, which is what brokers take
_EXTENSION: Final = re.compile(r"[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
# A JSON web token; what is long, with digits and capitals; what follows "Bearer"; what addresses and forms call a secret.
_LOOKS_SECRET: Final = re.compile(
    r"eyJ[\w-]+(?:\.[\w-]*)+"
    r"|(?=[\w\-+/=%~]*[0-9])(?=[\w\-+/=%~]*[A-Z])[\w\-+/=%~]{40,}"
    r"|(?i:(?<=bearer )\S+)"
    r"|(?i:(?<=token=|ecret=|sword=|ature=|ntial=|rtion=)[^&\s]+)"
)


class NoToken(CohortError):
    """There is no token: the message names the option and what to do.  ``retryable``: a later call may bring one."""

    def __init__(self, message: str, error: str = "SASL_AUTHENTICATION_FAILED", *, retryable: bool = False) -> None:
        super().__init__(message, error)
        self.retryable = retryable


@dataclass(frozen=True, slots=True)
class LoginToken:
    """What to log in with until ``ends``, in seconds since 1970."""

    value: str = field(repr=False)
    ends: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


def make_token(name: str, settings: Mapping[str, str], now: float, former: str = "") -> LoginToken:
    """Call the function ``name`` with these settings.

    Raises NoToken, which doesn't quote the ``former`` token either; ``now`` is in seconds since 1970.
    """
    function = _find(name)
    try:
        result = function(MappingProxyType(dict(settings)))
    except Exception as error:  # noqa: BLE001  the user's function may raise anything
        words = str(error).replace(former, REDACTED) if former else str(error)
        raise NoToken(
            f"{_option(name)} raised {type(error).__name__}: {harmless(words, settings)}; see that function, and who it "
            "asks for tokens",
            retryable=True,
        ) from None
    token = _parse_result(name, result)
    if token.ends <= now:
        raise NoToken(
            f"{_option(name)} returned a token that has ended {now - token.ends:.0f} s ago by the clock of "
            f"{socket.gethostname()}: have it make a new one each time, and see that clock",
            retryable=True,
        )
    return token


def harmless(text: str, settings: Mapping[str, str]) -> str:
    """The text of a foreign error on one line, without secrets of these settings or what looks like a token."""
    return printable(_LOOKS_SECRET.sub(REDACTED, redact_text(text, settings)))


def _option(name: str) -> str:
    return f"option kafka.{PROVIDER}={name}"


def _find(name: str) -> Callable[[Mapping[str, str]], Any]:
    module, _, path = name.partition(":")
    try:
        target: Any = reduce(getattr, path.split("."), cast("Any", importlib.import_module(module)))
    except Exception as error:  # noqa: BLE001  the user's module may raise anything
        raise NoToken(
            f"{_option(name)} cannot be imported on {socket.gethostname()} ({type(error).__name__}: "
            f"{harmless(str(error), {})}); write it as package.module:function, and ship its file with --py-files, or "
            "install it where driver and executors run"
        ) from None
    if not callable(target):
        words = f"{_option(name)} is a {type(target).__name__}"
        raise NoToken(f"{words}: name a function that takes the settings of the login and returns {_SHAPE}")
    return cast("Callable[[Mapping[str, str]], Any]", target)


def _parse_result(name: str, result: Any) -> LoginToken:
    if not isinstance(result, tuple) or len(result) not in (2, 4):
        kind = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a value of type {type(result).__name__}"
        raise NoToken(f"{_option(name)} returned {kind}: return {_SHAPE}")
    value, ends, principal, extensions = result if len(result) == 4 else (*result, "", {})
    if not isinstance(value, str) or len(value) > MOST_TOKEN or not _TOKEN.fullmatch(value):
        kind = "text that is no token" if isinstance(value, str) else f"a token of type {type(value).__name__}"
        raise NoToken(
            f"{_option(name)} returned {kind}: a token is text of letters, digits and -._~+/, without the word Bearer, of "
            f"{MOST_TOKEN} characters at most"
        )
    if isinstance(ends, bool) or not isinstance(ends, int | float) or not math.isfinite(ends):
        raise NoToken(f"{_option(name)} returned an end of type {type(ends).__name__}: give seconds since 1970")
    if ends > _MILLISECONDS:
        raise NoToken(f"{_option(name)} returned an end that seems to be in milliseconds: give seconds since 1970")
    return LoginToken(value, float(ends), *_identity(name, principal, extensions))


def _identity(name: str, principal: Any, extensions: Any) -> tuple[str, Mapping[str, str]]:
    """Whose token it is, and the extensions of the login (KIP-342)."""
    if not isinstance(principal, str) or "\0" in principal:
        raise NoToken(f"{_option(name)} returned a principal of type {type(principal).__name__}: give a name, or ''")
    if not isinstance(extensions, Mapping) or len(extensions) > MOST_EXTENSIONS:
        raise NoToken(f"{_option(name)}: extensions are a mapping of names to texts, {MOST_EXTENSIONS} at most")
    for key, text in extensions.items():
        fine = isinstance(key, str) and isinstance(text, str) and _EXTENSION.fullmatch(key) and _VALUE.fullmatch(text)
        if not fine or key == "auth":
            raise NoToken(
                f"{_option(name)} returned an extension that RFC 7628 doesn't allow: names are letters, but not 'auth', and "
                "values printable ASCII"
            )
    return principal, dict(extensions)
