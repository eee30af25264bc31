"""Java's properties files, as Kafka's command-line tools read them: ``--command-config client.properties``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sparkcohort.runtime.errors import OptionError

_LINE: Final = re.compile(r"((?:[^\\=:\s]|\\.)*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read(path: str) -> dict[str, str]:
    """Settings by name.  Raises OptionError when the file can't be read, without a text of it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise OptionError(f"--command-config {path} can't be read: {reason}") from None
    return parse(text)


def parse(text: str) -> dict[str, str]:
    r"""Lines ``name=value``, ``name: value`` or ``name value``; ``#`` and ``!`` begin comments, ``\`` goes on.

    >>> parse("# a comment\nsecurity.protocol = SASL_SSL\nsasl.jaas.config=a \\\n   b;\n")
    {'security.protocol': 'SASL_SSL', 'sasl.jaas.config': 'a b;'}
    """
    settings: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        whole = line.lstrip()
        if not whole or whole[0] in "#!":
            continue
        while _goes_on(whole):
            whole = whole[:-1] + next(lines, "").lstrip()
        if match := _LINE.fullmatch(whole):
            settings[_plain(match[1])] = _plain(match[2])
    return settings


def _goes_on(line: str) -> bool:
    """Whether a line ends with an odd number of backslashes, so that the next line continues it."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _plain(text: str) -> str:
    """The text without its escapes."""

    def one(match: re.Match[str]) -> str:
        word = match[1]
        return chr(int(word[1:], 16)) if len(word) == 5 else _ESCAPES.get(word, word)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", one, text, flags=re.DOTALL)
