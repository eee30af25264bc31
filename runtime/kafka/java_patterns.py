r"""Java's regular expressions, as ``subscribePattern`` has them at Spark's own source, as Python's, for names of topics.

A name has 65 different characters (Kafka: ``Topic.LEGAL_CHARS``), all of them ASCII.  So whatever stands for one character in
Java (``\w``, ``\p{Alpha}``, ``[a-z&&[^b]]``, ``(?i)x``) is exactly the set of those characters that it matches, and is
written as that set; flags are worked in, and what ends a line never comes.  What is left is the same in both languages, or
is refused by name.  Source: ``java.util.regex.Pattern`` of Java 17.

>>> translated(r"^\Q.\E[a-c&&[^b]]$")
'\\A\\.[ac]\\Z'
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping
from typing import Final, NamedTuple

_Set = frozenset[str]
_LETTERS, _DIGITS = frozenset(string.ascii_letters), frozenset(string.digits)
_LOWER, _UPPER = frozenset(string.ascii_lowercase), frozenset(string.ascii_uppercase)
_NONE: Final[_Set] = frozenset()
_ALL: Final = _LETTERS | _DIGITS | frozenset("._-")
_CASED: Final = (_LOWER, _UPPER)
"""Under ``(?i)`` either of these is all letters (JDK-8214245)."""

_PREDEFINED: Final[Mapping[str, _Set]] = {
    "d": _DIGITS,
    "w": _LETTERS | _DIGITS | {"_"},
    **dict.fromkeys("shv", _NONE),
}
_OF_ALL: Final = "ASCII Graph Print InBasicLatin InBasic_Latin IsAssigned javaDefined L1"
_OF_NONE: Final = (
    "Blank Cntrl Space Lt Lm Lo M Mn Mc Me Nl No Ps Pe Pi Pf S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Co Cs Cn IsControl "
    "IsWhite_Space IsIdeographic IsTitlecase IsJoin_Control IsGreek IsCyrillic IsHan javaWhitespace javaSpaceChar "
    "javaISOControl javaTitleCase javaMirrored"
)
_PROPERTIES: Final[Mapping[str, _Set]] = {
    **dict.fromkeys(_OF_ALL.split(), _ALL),
    **dict.fromkeys(_OF_NONE.split(), _NONE),
    **dict.fromkeys(["Lower", "Ll", "IsLowercase", "javaLowerCase"], _LOWER),
    **dict.fromkeys(["Upper", "Lu", "IsUppercase", "javaUpperCase"], _UPPER),
    **dict.fromkeys(
        ["Alpha", "L", "LC", "IsAlphabetic", "IsLetter", "IsLatin", "javaLetter", "javaAlphabetic"], _LETTERS
    ),
    **dict.fromkeys(["Digit", "N", "Nd", "IsDigit", "javaDigit"], _DIGITS),
    **dict.fromkeys(["Alnum", "LD", "javaLetterOrDigit"], _LETTERS | _DIGITS),
    **dict.fromkeys(["XDigit", "IsHex_Digit"], frozenset(string.hexdigits)),
    **dict.fromkeys(["Punct", "P", "IsPunctuation"], frozenset("._-")),
    "Pc": frozenset("_"),
    "Pd": frozenset("-"),
    "Po": frozenset("."),
    "IsCommon": _ALL - _LETTERS,
    "javaJavaIdentifierStart": _LETTERS | {"_"},
    "javaJavaIdentifierPart": _LETTERS | _DIGITS | {"_"},
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS: Final = {"A": r"\A", "G": r"\A", "Z": r"\Z", "z": r"\Z", "b": r"\b", "B": r"\B", "R": "(?!)"}
_CODES: Final = (
    re.compile(r"0([0-3]?[0-7]{1,2})"),
    re.compile(r"x([0-9a-fA-F]{2})"),
    re.compile(r"x\{([0-9a-fA-F]{1,6})\}"),
    re.compile(r"u([0-9a-fA-F]{4})"),
)
_COUNT: Final = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_FLAGS: Final = re.compile(r"\(\?([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
_GROUPS: Final = {"(?:": "(?:", "(?=": "(?=", "(?!": "(?!", "(?>": "(?>", "(?<=": "(?<=", "(?<!": "(?<!"}
_NAMED: Final = re.compile(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>")
_MOST_CHARACTERS: Final = 10_000


class PatternError(ValueError):
    """An expression that Java refuses too, or that means something else in Python; the message says what and where."""


def translated(text: str) -> str:
    """Java's expression in Python's words, for ``search`` in the names of topics.  Raises PatternError."""
    if len(text) > _MOST_CHARACTERS:
        raise PatternError(f"it has more than {_MOST_CHARACTERS} characters")
    try:
        return _Translation(text).python()
    except RecursionError:
        raise PatternError("it is nested too deeply") from None


class _Flags(NamedTuple):
    """Which of the embedded flags matter here: without line ends and other alphabets the others change nothing."""

    ignore_case: bool = False
    comments: bool = False


class _Translation:
    r"""One expression, read from left to right; ``\Q…\E`` is taken apart before: its characters stand in ``_literal``."""

    def __init__(self, text: str) -> None:
        self._text, self._literal = _unquoted(text)
        self._at = 0
        self._flags = _Flags()
        self._opened, self._closed = (
            0,
            set[int](),
        )  # a group that is repeated counts as closed only in its own repetition
        self._names: dict[str, int] = {}

    def python(self) -> str:
        """All of it, in Python's words."""
        found = self._alternatives()
        if self._at < len(self._text):
            raise self._error(") closes no group")
        return found

    # --- the text ----------------------------------------------------------------------------------------

    def _error(self, what: str) -> PatternError:
        return PatternError(f"{what}, at character {self._at + 1}")

    def _sees(self, token: str) -> bool:
        """Whether this stands here, and not as plain characters."""
        ends = self._at + len(token)
        return self._text.startswith(token, self._at) and not any(self._literal[self._at : ends])

    def _takes(self, token: str) -> bool:
        if found := self._sees(token):
            self._at += len(token)
        return found

    def _matches(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Take what matches here, unless some of it is plain characters."""
        found = pattern.match(self._text, self._at)
        if found is None or any(self._literal[self._at : found.end()]):
            return None
        self._at = found.end()
        return found

    def _skip_comments(self) -> None:
        while self._flags.comments and self._at < len(self._text) and not self._literal[self._at]:
            if self._text[self._at] == "#":
                line = self._text.find("\n", self._at)
                self._at = len(self._text) if line < 0 else line + 1
            elif self._text[self._at] in " \t\n\v\f\r":
                self._at += 1
            else:
                return

    # --- the expression ----------------------------------------------------------------------------------

    def _alternatives(self) -> str:
        branches = [self._sequence()]
        while self._takes("|"):
            branches.append(self._sequence())
        return "|".join(branches)

    def _sequence(self) -> str:
        found: list[str] = []
        while True:
            self._skip_comments()
            if self._at >= len(self._text) or self._sees("|") or self._sees(")"):
                return "".join(found)
            before = set(self._closed)
            atom = self._atom()
            if atom is None:  # a flag
                continue
            found.append(self._quantified(atom))
            if found[-1] != atom:
                # What a group holds after repetitions that took nothing, the two languages don't agree on.
                self._closed &= before

    def _quantified(self, atom: str) -> str:
        self._skip_comments()
        for sign in "?*+":
            if self._takes(sign):
                break
        else:
            if not self._sees("{"):
                return atom
            counted = self._matches(_COUNT)
            if counted is None:
                raise self._error("{ begins no count; as a character it is written \\{")
            sign = counted[0]
        greed = next((sign for sign in "?+" if self._takes(sign)), "")
        return f"(?:{atom}){sign}{greed}"

    def _atom(self) -> str | None:
        if self._takes("^"):
            return r"\A"
        if self._takes("$"):
            return r"\Z"
        if self._takes("."):
            return _written(_ALL)
        if self._sees("("):
            return self._group()
        if self._takes("["):
            return _written(self._set())
        for sign in "?*+{":
            if self._sees(sign):
                raise self._error(f"{sign} has nothing to repeat; as a character it is written \\{sign}")
        if self._takes("\\"):
            return self._escape()
        return _written(self._cases(self._character()))

    def _group(self) -> str | None:
        kept = self._flags
        if flags := self._matches(_FLAGS):
            on, off = flags[1], flags[2] or ""
            self._flags = _Flags(
                ignore_case="i" not in off and ("i" in on or kept.ignore_case),
                comments="x" not in off and ("x" in on or kept.comments),
            )
            if flags[3] == ")":
                return None
            return self._inside("(?:", kept)
        if named := self._matches(_NAMED):
            return self._captured(f"(?P<{self._named(named[1])}>", kept)
        for java, python in _GROUPS.items():
            if self._takes(java):
                return self._inside(python, kept)
        if self._sees("(?"):
            raise self._error("an unknown kind of group")
        self._at += 1
        self._opened += 1
        return self._captured("(", kept)

    def _named(self, name: str) -> str:
        if name in self._names:
            raise self._error(f"the group {name} is there twice")
        self._opened += 1
        self._names[name] = self._opened
        return name

    def _captured(self, opening: str, kept: _Flags) -> str:
        number = self._opened
        found = self._inside(opening, kept)
        self._closed.add(number)
        return found

    def _inside(self, opening: str, kept: _Flags) -> str:
        found = self._alternatives()
        if not self._takes(")"):
            raise self._error("a group is not closed")
        self._flags = kept
        return f"{opening}{found})"

    def _escape(self) -> str:
        """What follows a backslash, outside of a set."""
        if self._sees("b{g}"):
            raise self._error("\\b{g} is not known to Python")
        for letter, python in _ANCHORS.items():
            if self._takes(letter):
                return python
        if self._takes("X"):
            return _written(_ALL)
        if reference := self._matches(re.compile(r"k<([a-zA-Z][a-zA-Z0-9]*)>")):
            return self._reference(self._names.get(reference[1], 0))
        if self._matches(re.compile(r"(?=[1-9])")):
            number = int(self._character())
            while (digit := self._matches(re.compile(r"[0-9]"))) is not None:
                if (longer := 10 * number + int(digit[0])) > self._opened:
                    self._at -= 1
                    break
                number = longer
            return self._reference(number)
        found = self._predefined()
        return _written(self._cases(self._code()) if found is None else found)

    def _reference(self, number: int) -> str:
        if number not in self._closed:
            raise self._error("it refers to a group that is not there, not closed yet, or repeated")
        return f"(?i:\\{number})" if self._flags.ignore_case else f"(?:\\{number})"

    # --- one character -----------------------------------------------------------------------------------

    def _character(self) -> str:
        if self._at >= len(self._text):
            raise self._error("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _cases(self, character: str) -> _Set:
        """The characters of names that this one matches."""
        if not self._flags.ignore_case:
            return _ALL & {character}
        if not character.isascii():
            raise self._error("a letter that is none of a topic's name, under (?i)")
        return _ALL & {character.lower(), character.upper()}

    def _predefined(self) -> _Set | None:
        """What follows a backslash, if it is a set: ``d``, ``P{Alpha}`` and their like."""
        for letter, found in _PREDEFINED.items():
            if self._takes(letter):
                return found
            if self._takes(letter.upper()):
                return _ALL - found
        negated = self._sees("P")
        found_name = self._matches(re.compile(r"[pP](?:\{(?:(?:gc|general_category)=)?(\w+)\}|(\w))"))
        if found_name is None:
            return None
        name = found_name[1] or found_name[2]
        members = _PROPERTIES.get(name)
        if members is None and name.startswith("Is"):
            members = _PROPERTIES.get(name[2:]) if len(name) <= 4 else None  # IsL, IsLu
        if members is None:
            raise self._error(f"\\p{{{name}}} is not known here")
        if self._flags.ignore_case and members in _CASED:
            members = _LETTERS
        return _ALL - members if negated else members

    def _code(self) -> str:
        """What follows a backslash, as the one character that it stands for."""
        for code, base in zip(_CODES, (8, 16, 16, 16), strict=True):
            if found := self._matches(code):
                if (number := int(found[1], base)) > 0x10FFFF:
                    raise self._error("no such character")
                return chr(number)
        character = self._character()
        if character == "c":
            return chr(ord(self._character()) ^ 64)
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isascii() and character.isalnum():
            raise self._error(f"\\{character} is not known here")
        return character

    # --- sets --------------------------------------------------------------------------------------------

    def _set(self) -> _Set:
        """What follows a ``[``: unions, and intersections of them; ``^`` negates all of it."""
        negated = self._takes("^")
        operands = [self._union(first=True)]
        while self._takes("&&"):
            operands.append(self._union(first=False))
        if not self._takes("]"):
            raise self._error("a set is not closed")
        found = frozenset.intersection(*operands)
        return _ALL - found if negated else found

    def _union(self, *, first: bool) -> _Set:
        found: _Set = _NONE
        items, nested = 0, 0
        while True:
            self._skip_comments()
            if self._at >= len(self._text):
                raise self._error("a set is not closed")
            if self._sees("&&") or (self._sees("]") and (items or not first)):
                break
            if self._takes("["):
                found |= self._set()
                nested += 1
            else:
                found |= self._range()
            items += 1
        if not items:
            raise self._error("&& has nothing beside it")
        if not first and 0 < nested < items:
            raise self._error("sets and characters are mixed behind &&, which Java reads in a way of its own")
        return found

    def _range(self) -> _Set:
        if self._takes("\\"):
            found = self._predefined()
            if found is not None:
                return found
            low = self._code()
        else:
            low = self._character()
        self._skip_comments()
        if not self._sees("-") or self._sees("-]") or self._sees("-["):
            return self._cases(low)
        self._at += 1
        self._skip_comments()
        high = self._code() if self._takes("\\") else self._character()
        if high < low:
            raise self._error(f"the range {low}-{high} is the wrong way round")
        members = frozenset(each for each in _ALL if low <= each <= high)
        if not self._flags.ignore_case:
            return members
        return frozenset(each for each in _ALL if low <= each.lower() <= high or low <= each.upper() <= high)


def _written(members: _Set) -> str:
    if not members:
        return "(?!)"
    return re.escape(*members) if len(members) == 1 else f"[{''.join(map(re.escape, sorted(members)))}]"


def _unquoted(text: str) -> tuple[str, list[bool]]:
    r"""The text without ``\Q`` and ``\E``, and which of its characters stood between them."""
    characters: list[str] = []
    literal: list[bool] = []
    at, quoting = 0, False
    while at < len(text):
        two = text[at : at + 2]
        if not quoting and two == "\\Q":
            quoting, at = True, at + 2
        elif quoting and two == "\\E":
            quoting, at = False, at + 2
        else:
            size = 2 if not quoting and two.startswith("\\") and len(two) == 2 else 1
            characters += text[at : at + size]
            literal += [quoting] * size
            at += size
    return "".join(characters), literal
