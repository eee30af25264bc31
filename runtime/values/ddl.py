r"""Schemas as Spark writes them (DDL), read without a JVM.

Spark's grammar (SqlBaseParser.g4, ``singleTableSchema`` and ``dataType``) as far as a decoded value can have its types: a
list of columns, or a STRUCT.  Comments of SQL are skipped, those of columns and NOT NULL read and dropped: whatever is
decoded may be null.

>>> str(parse_ddl("id BIGINT NOT NULL, `my tags` ARRAY<STRING> COMMENT 'x', at STRUCT<d: DATE, m: MAP<STRING, DECIMAL(9,2)>>"))
'struct<id:bigint,my tags:array<string>,at:struct<d:date,m:map<string,decimal(9,2)>>>'
>>> parse_ddl("id BIGINT, name CHAR(3)")
Traceback (most recent call last):
...
sparkcohort.runtime.values.ddl.MalformedDdl: the type CHAR at character 17 is not one that a value can have: write STRING
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn

from sparkcohort.runtime.values.types import ColumnType, array, decimal, mapping

MOST_DEPTH: Final = 100
MOST_DIGITS: Final = 38

_NAMES: Final = {
    **dict.fromkeys(("boolean",), "boolean"),
    **dict.fromkeys(("tinyint", "byte"), "tinyint"),
    **dict.fromkeys(("smallint", "short"), "smallint"),
    **dict.fromkeys(("int", "integer"), "int"),
    **dict.fromkeys(("bigint", "long"), "bigint"),
    **dict.fromkeys(("float", "real"), "float"),
    **dict.fromkeys(("double",), "double"),
    **dict.fromkeys(("string",), "string"),
    **dict.fromkeys(("binary",), "binary"),
    **dict.fromkeys(("date",), "date"),
    **dict.fromkeys(("timestamp_ltz",), "timestamp"),
    **dict.fromkeys(("timestamp_ntz",), "timestamp_ntz"),
}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_INSTEAD: Final = {"char": "STRING", "character": "STRING", "varchar": "STRING", "variant": "STRING", "time": "STRING"}

_TOKEN: Final = re.compile(
    r"""
    (?P<space> \s+ | --[^\r\n]* | /\*.*?\*/ )
  | (?P<quoted> `(?:[^`]|``)*` )
  | (?P<text> '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
  | (?P<number> [0-9]+ (?![0-9A-Za-z_]) )
  | (?P<word> [A-Za-z0-9_]+ )
  | (?P<mark> <> | [<>(),:] )
    """,
    re.VERBOSE | re.DOTALL,
)


class MalformedDdl(ValueError):
    """What came is no schema; the message says where, and what to write."""


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse_ddl(text: str, timestamp: str = "timestamp") -> ColumnType:
    """The struct that the text describes: a list of columns, or STRUCT<...>.  Raises MalformedDdl.

    ``timestamp`` is what TIMESTAMP alone stands for: in Spark ``spark.sql.timestampType`` says that.
    """
    parser = _SchemaParser(_tokens(text), timestamp)
    kind = parser.whole()
    if not kind.children:
        raise MalformedDdl("the schema has no column: write some, such as id BIGINT, name STRING")
    return kind


def _tokens(text: str) -> list[_Token]:
    tokens, position = list[_Token](), 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise MalformedDdl(
                f"{text[position]!r} at character {position + 1} has no place in a schema: names with other characters than letters, "
                "digits and _ stand between backticks"
            )
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(_Token(kind, match.group(), position + 1))
        position = match.end()
    return [*tokens, _Token("end", "", len(text) + 1)]


def _struct(fields: Sequence[tuple[str, ColumnType]]) -> ColumnType:
    return ColumnType("struct", tuple(kind for _, kind in fields), tuple(name for name, _ in fields))


class _SchemaParser:
    """One pass from left to right; a method for each rule of the grammar."""

    def __init__(self, tokens: list[_Token], timestamp: str) -> None:
        self._tokens, self._timestamp, self._index, self._depth = tokens, timestamp, 0, 0

    def whole(self) -> ColumnType:
        """The text as a whole: as Spark's ``DataType.fromDDL``, a type is tried before a list of columns."""
        if self._is_struct():
            kind = self._type()
            self._end()
            return kind
        fields = [self._column(colon=False)]
        while self._take(","):
            fields.append(self._column(colon=False))
        self._end()
        return _struct(fields)

    def _is_struct(self) -> bool:
        first, second = self._tokens[0], self._tokens[min(1, len(self._tokens) - 1)]
        return first.kind == "word" and first.text.lower() == "struct" and second.text in ("<", "<>")

    @property
    def _now(self) -> _Token:
        return self._tokens[self._index]

    def _take(self, text: str) -> bool:
        """Whether the next token is this mark or word; then it is passed."""
        now = self._now
        if now.kind not in ("mark", "word") or now.text.lower() != text:
            return False
        self._index += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._fail(f"{text} is expected")

    def _end(self) -> None:
        if self._now.kind != "end":
            self._fail("a comma or the end is expected")

    def _fail(self, message: str) -> NoReturn:
        place = f"{self._now.text!r} stands" if self._now.kind != "end" else "the schema ends"
        raise MalformedDdl(f"{message} at character {self._now.position}, where {place}")

    def _column(self, *, colon: bool) -> tuple[str, ColumnType]:
        """``name TYPE [NOT NULL] [COMMENT 'text']``, in a struct with a colon behind the name, if one likes."""
        name = self._name()
        if colon:
            self._take(":")
        kind = self._type()
        if self._take("not"):
            self._expect("null")
        if self._take("comment"):
            if self._now.kind != "text":
                self._fail("a text between quotes is expected")
            self._index += 1
        return name, kind

    def _name(self) -> str:
        now = self._now
        if now.kind not in ("word", "quoted"):
            self._fail("a column's name is expected")
        self._index += 1
        name = now.text if now.kind == "word" else now.text[1:-1].replace("``", "`")
        if not name:
            raise MalformedDdl(f"the name at character {now.position} is empty")
        return name

    def _type(self) -> ColumnType:
        now, name = self._now, self._now.text.lower()
        if now.kind != "word":
            self._fail("a type is expected")
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise MalformedDdl(f"types are nested deeper than {MOST_DEPTH} levels at character {now.position}")
        self._index += 1
        kind = self._nested(name) or self._plain(now, name)
        self._depth -= 1
        return kind

    def _nested(self, name: str) -> ColumnType | None:
        if name == "struct":
            return self._fields()
        if name not in ("array", "map"):
            return None
        self._expect("<")
        first = self._type()
        if name == "array":
            self._expect(">")
            return array(first)
        self._expect(",")
        value = self._type()
        self._expect(">")
        return mapping(value, first)

    def _fields(self) -> ColumnType:
        if self._take("<>"):
            return _struct(())
        self._expect("<")
        if self._take(">"):
            return _struct(())
        fields = [self._column(colon=True)]
        while self._take(","):
            fields.append(self._column(colon=True))
        self._expect(">")
        return _struct(fields)

    def _plain(self, now: _Token, name: str) -> ColumnType:
        if name in _DECIMALS:
            return self._decimal(now)
        if name == "timestamp":
            return ColumnType(self._kind_of_timestamp())
        if name in _NAMES:
            return ColumnType(_NAMES[name])
        names = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE, TIMESTAMP, "
        remedy = _INSTEAD.get(name, f"{names}TIMESTAMP_NTZ, ARRAY, MAP or STRUCT")
        raise MalformedDdl(
            f"the type {now.text.upper()} at character {now.position} is not one that a value can have: write {remedy}"
        )

    def _kind_of_timestamp(self) -> str:
        if self._take("without"):
            kind = "timestamp_ntz"
        elif self._take("with"):
            self._expect("local")
            kind = "timestamp"
        else:
            return self._timestamp
        self._expect("time")
        self._expect("zone")
        return kind

    def _decimal(self, now: _Token) -> ColumnType:
        precision, scale = 10, 0
        if self._take("("):
            precision = self._number()
            scale = self._number() if self._take(",") else 0
            self._expect(")")
        if not 1 <= precision <= MOST_DIGITS or scale > precision:
            raise MalformedDdl(
                f"the DECIMAL at character {now.position} has {precision} digits, {scale} of them behind the point: at most "
                f"{MOST_DIGITS} digits, and no more behind the point than there are"
            )
        return decimal(precision, scale)

    def _number(self) -> int:
        now = self._now
        if now.kind != "number" or len(now.text) > 4:
            self._fail("a number of digits is expected")
        self._index += 1
        return int(now.text)
