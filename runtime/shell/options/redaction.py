"""Texts of libraries and brokers without the secrets that they may quote, and without gaps that reveal a secret.

Only texts of others come here: our own messages are made without secrets.  A secret that is certainly no ordinary word is
replaced.  One that may be a word can't be: in "No [redacted] for SASL mechanism" the gap reveals the word, and a password "p"
would be cut out of all words.  Where such a secret stands as a word, the whole text is withheld; inside of other words it
reveals nothing and stays.
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
    """The text without these secrets, in plain or escaped form; ``WITHHELD`` where a gap would reveal one.

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
    """The secrets, their lines, and their forms in log lines."""
    lines = {
        line
        for secret in secrets
        for line in (secret, *secret.splitlines())
        if line and (line == secret or (len(line) >= _LINE and not line.startswith("-----")))
    }
    return lines | {printable(line, 10 * len(line)) for line in lines}


def _unmistakable(secret: str) -> bool:
    return len(secret) >= _UNMISTAKABLE and not secret.isalpha() and not secret.isdigit()
