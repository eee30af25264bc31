r"""``subscribePattern``: the topics that a Java regular expression finds, within a limit of time.

A topic's name has ASCII letters and digits, and ``._-`` (Kafka: ``Topic.LEGAL_CHARS``).  For such names most of Java's syntax
means the same to the package ``regex``; the rest is refused by name.  Source: ``java.util.regex.Pattern`` of Java 17.

>>> finds(r"^\Qeu.\E[a-c&&[^b]]$", "eu.a"), finds("^eu.", "us.eu.a")
(True, False)
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import regex

LONGEST_S: Final = 5.0
"""The longest match of one name; Java has no limit."""
MOST_CHARACTERS: Final = 10_000
_PROPERTIES: Final = "ASCII Alnum Alpha Digit Lower Punct Upper XDigit L Ll Lu N Nd P Pc Pd IsAlphabetic IsLatin"
_ESCAPE: Final = rf"\\(?:[dDwWsS]|[pP]\{{(?:{'|'.join(_PROPERTIES.split())})\}}|[pP][LNP]|[^a-zA-Z0-9])"
# After && Java treats mixed sets and characters differently; --, || and ~~ are operators in regex but not in Java.
_ITEMS: Final = rf"(?:{_ESCAPE}|(?!--|\|\||~~)[^\\\[\]&])+"
_SET: Final = rf"\[\^?(?!\^){_ITEMS}(?:&&\[\^?(?!\^){_ITEMS}\])?\]"
_QUOTED: Final = re.compile(r"(\\[^Q])|\\Q(.*?)(?:\\E|$)", re.DOTALL)
_TOKEN: Final = re.compile(
    rf"(?P<end>\\z)|\(\?<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>"
    r"|\(\?<[=!](?:\\[^a-zA-Z0-9]|[\w.-])+\)"  # Java's look-behind needs a bounded length
    rf"|\(\?(?:[:=!>]|-?i:|-?i\)(?![?*+{{]))|\\[bBAZ]|{_ESCAPE}|{_SET}"
    r"|(?:[?*+]|\{[0-9]{1,9}(?:,[0-9]{0,9})?\})[?+]?|[^\\\[{?*+(]|\((?!\?)",
    re.DOTALL,
)


class PatternError(ValueError):
    """An expression that Java refuses, too, or that ``regex`` may read differently; the message has the place."""


def finds(text: str, name: str) -> bool:
    """Whether an expression has a match anywhere in a topic's name (``Matcher.find``).  Raises PatternError."""
    try:
        return compile_pattern(text).search(name, timeout=LONGEST_S) is not None
    except TimeoutError:  # nested repetition: the time doubles with each character of the name
        raise PatternError(
            f"it is not done with the topic {name} after {LONGEST_S:g} s: repeat no group that repeats something itself, or "
            "write the group (?>…)"
        ) from None


@cache
def compile_pattern(text: str) -> regex.Pattern[str]:
    """A Java regular expression for names of topics.  Raises PatternError."""
    try:
        return regex.compile(_checked(text), regex.VERSION1)
    except (regex.error, OverflowError) as error:  # a count beyond all bounds
        raise PatternError(f"it can't be used here: {error}") from None
    except RecursionError:
        raise PatternError("it is nested too deeply") from None


def _checked(text: str) -> str:
    """The expression for ``regex``, piece by piece.  Raises PatternError for a piece that ``regex`` may read differently."""
    if len(text) > MOST_CHARACTERS:
        raise PatternError(f"it has more than {MOST_CHARACTERS} characters")
    if not text.isascii():
        raise PatternError("it has a character that no topic's name has")
    text = _QUOTED.sub(lambda match: match[1] or re.escape(match[2]), text)
    pieces, names, position = list[str](), set[str](), 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or token["name"] in names:
            raise PatternError(f"{text[position : position + 12]!r} is not known here, at character {position + 1}")
        names |= {token["name"]} - {None}
        pieces.append(r"\Z" if token["end"] else token[0])
        position = token.end()
    return "".join(pieces)
