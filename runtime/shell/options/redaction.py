"""Texts of libraries and brokers without the secrets that they may quote, and without telling a secret by its gap.

Only what others have said goes through here: our own sentences are made without secrets, and stay as they are.  A secret
that can be nothing else is replaced where it stands.  One that may be an ordinary word can't be: in "No [redacted] for SASL
mechanism" everybody sees which word it was, and a password "p" would be taken out of all words.  Where such a word stands by
itself the whole text is withheld; inside of other words it tells nothing, and they stay whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sparkcohort.runtime.text import printable

REDACTED: Final = "[redacted]"
WITHHELD: Final = "(its words are not shown, a secret may be among them)"

_UNMISTAKABLE: Final = 6  # characters of a secret with letters and others that no ordinary text has by chance
_LONG: Final = 8  # characters of a word that is no part of another by chance
_LINE: Final = 16  # characters of a line of PEM that is a secret by itself
_WORD_BEGIN: Final = r"(?:(?<!\w)|(?<=\\x[0-9a-f]{2})|(?<=\\u[0-9a-f]{4})|(?<=\\[nrt0]))"
_WORD_END: Final = r"(?!\w|\.\w|:\d)"  # not as part of a number, a setting's name or an address


def redact_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, however they are written in it; ``WITHHELD`` where a gap would tell.

    >>> redact_secrets("No provider for SASL mechanism PLAIN", ["p", "provide", "plain"])
    'No provider for SASL mechanism PLAIN'
    >>> redact_secrets("No provider for SASL mechanism PLAIN", ["provider"])
    '(its words are not shown, a secret may be among them)'
    >>> redact_secrets("no such user: alice, hunter2", ["hunter2"])
    'no such user: alice, [redacted]'
    """
    for secret in sorted(_forms(secrets), key=len, reverse=True):
        if secret not in text:
            continue
        if _unmistakable(secret):
            text = text.replace(secret, REDACTED)
        elif len(secret) >= _LONG or re.search(f"{_WORD_BEGIN}{re.escape(secret)}{_WORD_END}", text):
            return WITHHELD
    return text


def _forms(secrets: Iterable[str]) -> set[str]:
    """The secrets, their lines, and how log lines write them."""
    lines = {
        line
        for secret in secrets
        for line in (secret, *secret.splitlines())
        if line and (line == secret or (len(line) >= _LINE and not line.startswith("-----")))
    }
    return lines | {printable(line, 10 * len(line)) for line in lines}


def _unmistakable(secret: str) -> bool:
    return len(secret) >= _UNMISTAKABLE and not secret.isalpha() and not secret.isdigit()
