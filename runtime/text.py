"""Text for a log line, an error or a terminal: what others wrote (brokers, members, peers), and numbers of things."""

from __future__ import annotations

MOST = 1_000


def printable(text: str, most: int = MOST) -> str:
    r"""One line of visible characters, at most so many: others are written as escapes, what is too long is cut.

    >>> print(printable("denied\n2026-11-22 INFO all is well\x1b[2J"))
    denied\n2026-11-22 INFO all is well\x1b[2J
    >>> printable("abcdef", 4)
    'abc…'
    """
    if len(text) > most:  # before escaping: a text of megabytes costs no more than one that fits
        text = text[: most - 1] + "…"
    if text.isprintable():
        return text
    shown = "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in text
    )
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def counted(number: int, word: str) -> str:
    """``1 member``, ``2,000 members``."""
    return f"{number:,} {word}{'s' * (number != 1)}"
