"""The user's function that makes tokens (``kafka.sasl.oauthbearer.provider``): found, called, and what it returns checked.

Nothing of a token gets into an error: of what the function returns only types are told, and of what it raises the words
without whatever looks like a token.
"""

from __future__ import annotations

import importlib
import re
import socket
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeAlias, cast

from msgspec import Meta, Struct, ValidationError, convert

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.options.redaction import REDACTED
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.shell.options.token_settings import PROVIDER
from sparkcohort.runtime.text import printable

_SHAPE: Final = (
    "(token without the word Bearer, end in seconds since 1970), and where the broker wants them a principal and a mapping of "
    "extensions"
)
# RFC 6750's b64token, which is what brokers take; half of what they receive (sasl.server.max.receive.size).
Token: TypeAlias = Annotated[str, Meta(pattern=r"^[A-Za-z0-9\-._~+/]+=*\Z", max_length=256 << 10)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e11)]  # until the year 5138: more are milliseconds
# RFC 7628's.
ExtensionName: TypeAlias = Annotated[str, Meta(pattern=r"^(?!auth\Z)[A-Za-z]+\Z")]
ExtensionValue: TypeAlias = Annotated[str, Meta(pattern=r"^[\x21-\x7e \t\r\n]+\Z")]
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


class LoginToken(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What to log in with until ``ends``, in seconds since 1970; the extensions are KIP-342's."""

    value: Token
    ends: Seconds
    principal: Annotated[str, Meta(pattern=r"^[^\0]*\Z")] = ""
    extensions: Annotated[dict[ExtensionName, ExtensionValue], Meta(max_length=32)] = {}

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"LoginToken(ends={self.ends})"


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
    try:
        token = convert(result, LoginToken)
    except ValidationError as error:  # which tells types and places
        raise NoToken(f"{_option(name)} returned something else than {_SHAPE}: {error}") from None
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
