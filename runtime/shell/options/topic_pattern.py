"""``subscribePattern``: which topics an expression finds, with an end to it."""

from __future__ import annotations

from functools import cache
from typing import Final

import regex

from sparkcohort.runtime.kafka.java_patterns import PatternError, translated

LONGEST_S: Final = 5.0
"""How long a name may be tried; Java goes on for ever."""


class TopicPattern:
    """An expression of Java's, for names of topics."""

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        try:
            self._pattern = regex.compile(translated(text))
        except (regex.error, OverflowError) as error:  # a count beyond all bounds
            raise PatternError(f"Python can't do this: {error}") from None
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


@cache
def topic_pattern(text: str) -> TopicPattern:
    """The expression, made once.  Raises PatternError."""
    return TopicPattern(text)
