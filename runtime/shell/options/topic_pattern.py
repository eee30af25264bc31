r"""``subscribePattern``: which topics an expression of Java's finds, with an end to it.

A topic's name has ASCII's letters and digits, and ``._-`` (Kafka: ``Topic.LEGAL_CHARS``).  In such names most of what Java
knows means the same to the package ``regex``; the rest is refused by name.  Source: ``java.util.regex.Pattern`` of Java 17.

>>> TopicPattern(r"^\Qeu.\E[a-c&&[^b]]$").finds("eu.a"), TopicPattern("^eu.").finds("us.eu.a")
(True, False)
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import regex

LONGEST_S: Final = 5.0
"""How long a name may be tried; Java goes on for ever."""
MOST_CHARACTERS: Final = 10_000
_PROPERTIES: Final = "ASCII Alnum Alpha Digit Lower Punct Upper XDigit L Ll Lu N Nd P Pc Pd IsAlphabetic IsLatin"
_ESCAPE: Final = rf"\\(?:[dDwWsS]|[pP]\{{(?:{'|'.join(_PROPERTIES.split())})\}}|[pP][LNP]|[^a-zA-Z0-9])"
# Behind && Java reads a mixture of sets and characters in a way of its own; --, || and ~~ are operators of regex alone.
_ITEMS: Final = rf"(?:{_ESCAPE}|(?!--|\|\||~~)[^\\\[\]&])+"
_SET: Final = rf"\[\^?(?!\^){_ITEMS}(?:&&\[\^?(?!\^){_ITEMS}\])?\]"
_QUOTED: Final = re.compile(r"(\\[^Q])|\\Q(.*?)(?:\\E|$)", re.DOTALL)
_TOKEN: Final = re.compile(
    rf"(?P<end>\\z)|\(\?<(?P<name>[a-zA-Z][a-zA-Z0-9]*)>"
    r"|\(\?<[=!](?:\\[^a-zA-Z0-9]|[\w.-])+\)"  # Java wants an end to what is behind
    rf"|\(\?(?:[:=!>]|-?i:|-?i\)(?![?*+{{]))|\\[bBAZ]|{_ESCAPE}|{_SET}"
    r"|(?:[?*+]|\{[0-9]{1,9}(?:,[0-9]{0,9})?\})[?+]?|[^\\\[{?*+(]|\((?!\?)",
    re.DOTALL,
)


class PatternError(ValueError):
    """An expression that Java refuses too, or that may mean something else here; the message says what and where."""


class TopicPattern:
    """An expression of Java's, for names of topics."""

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        try:
            self._pattern = regex.compile(_checked(text), regex.VERSION1)
        except (regex.error, OverflowError) as error:  # a count beyond all bounds
            raise PatternError(f"it can't be used here: {error}") from None
        except RecursionError:
            raise PatternError("it is nested too deeply") from None

    def finds(self, name: str) -> bool:
        """Whether it is found in the name, from whichever character on (``Matcher.find``).  Raises PatternError."""
        try:
            return self._pattern.search(name, timeout=LONGEST_S) is not None
        except TimeoutError:  # each try to divide the name in another way takes twice as long with each character
            raise PatternError(
                f"it is not done with the topic {name} after {LONGEST_S:g} s: repeat no group that repeats something itself, or "
                "write the group (?>…)"
            ) from None


def _checked(text: str) -> str:
    """The expression for ``regex``, piece by piece.  Raises PatternError for a piece that may mean something else there."""
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


@cache
def topic_pattern(text: str) -> TopicPattern:
    """The expression, made once.  Raises PatternError."""
    return TopicPattern(text)
