"""A JSON object into the values of a plan, in Python: the slow way, and the twin that native/json is compared with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkcohort.runtime.values.json.plan import JsonField, JsonReason
from sparkcohort.runtime.values.json.text import read_base64, read_date, read_decimal, read_timestamp
from sparkcohort.runtime.values.json.zone import ZoneTable, local_offset

WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
NON_NUMBERS = {
    "NaN": float("nan"),
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), float("inf")),
    **dict.fromkeys(("-Infinity", "-INF"), float("-inf")),
}
SPACES = b" \t\n\r"

Fault = tuple[JsonReason, int]


@dataclass(frozen=True, slots=True)
class _Number:
    text: str


@dataclass(frozen=True, slots=True)
class _Object:
    pairs: list[tuple[str, Any]]


class _Unfit(Exception):
    """A value that its column can't have."""


DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number, parse_constant=_Number)


def _write(value: Any) -> str:
    """JSON without spaces, numbers as they were written."""
    if isinstance(value, _Object):
        return "{" + ",".join(f"{_write(name)}:{_write(each)}" for name, each in value.pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    return value.text if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


class JsonReader:
    """Reads records, one after the other; ``check`` is told how many values they become at most.

    ``zone`` is that of timestamps that name none.
    """

    def __init__(self, fields: tuple[JsonField, ...], check: Callable[[int], None], zone: ZoneTable = ()) -> None:
        self._ahead = partial(local_offset, zone)
        self._fields, self._check, self._count = fields, check, 0
        self._children = {at: self._inside(at) for at in range(len(fields))}
        self._nulls = [1] * len(fields)
        for at in reversed(range(len(fields))):
            if fields[at].type.kind == "struct":
                self._nulls[at] += sum(self._nulls[child] for child in self._children[at].values())
        self._fault: Fault | None = None

    def _inside(self, at: int) -> dict[str, int]:
        children, child = {}, at + 1
        while child <= at + self._fields[at].inside:
            children[self._fields[child].name] = child
            child += 1 + self._fields[child].inside
        return children

    def read(self, record: bytes | None) -> tuple[dict[str, Any] | None, Fault | None]:
        """The values by name, and what was wrong first; None is a record that is null as a whole."""
        self._fault = None
        return self._value(0, self._object(record)), self._fault

    def _object(self, record: bytes | None) -> _Object | None:
        if record is None or not record.strip(SPACES):
            return None
        reason = JsonReason.SYNTAX
        try:
            # What stands behind the object is nobody's matter, not even whether it is text.
            value, _ = DECODER.raw_decode(record.lstrip(SPACES).decode(errors="surrogateescape"))
            _write(value).encode()
            if isinstance(value, _Object):
                return value
            reason = JsonReason.NOT_OBJECT
        except UnicodeEncodeError as error:
            if "\udc80" <= error.object[error.start] <= "\udcff" and not _is_escaped(record):
                reason = JsonReason.UTF8
        except (ValueError, RecursionError):
            pass
        self._fault = reason, 0
        return None

    def _unfit(self, at: int, reason: JsonReason) -> _Unfit:
        self._fault = self._fault or (reason, at)
        return _Unfit()

    def _add(self, values: int) -> None:
        self._count += values
        self._check(self._count)

    def _value(self, at: int, value: Any) -> Any:
        kind = self._fields[at].type.kind
        if value is None:
            self._add(self._nulls[at])
            return None
        if kind == "struct":
            return self._struct(at, value)
        self._add(1)
        if kind == "array" and isinstance(value, list):
            return [self._value(at + 1, each) for each in value]
        if kind == "map" and isinstance(value, _Object):
            self._add(len(value.pairs))
            return [(name, self._value(at + 2, each)) for name, each in value.pairs]
        if kind == "string":
            return value if isinstance(value, str) else _write(value)
        if kind == "boolean" and isinstance(value, bool):
            return value
        if kind in WHOLE and isinstance(value, _Number):
            return self._whole(at, value.text, WHOLE[kind])
        if isinstance(value, _Number):
            return self._from_number(at, kind, value.text)
        if isinstance(value, str):
            return self._from_text(at, kind, value)
        raise self._unfit(at, JsonReason.WRONG_TYPE)

    def _struct(self, at: int, value: Any) -> dict[str, Any]:
        if not isinstance(value, _Object):
            raise self._unfit(at, JsonReason.WRONG_TYPE)
        children, found = self._children[at], {}
        for name, each in value.pairs:
            if name in children:
                try:
                    found[name] = self._value(children[name], each)
                except _Unfit:
                    continue
        self._add(1 + sum(self._nulls[child] for name, child in children.items() if name not in found))
        return {name: found.get(name) for name in children}

    def _whole(self, at: int, text: str, bits: int) -> int:
        if not text.lstrip("-").isdigit():
            raise self._unfit(at, JsonReason.WRONG_TYPE)
        number = int(text) if len(text) <= 20 else 2**64
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise self._unfit(at, JsonReason.OUT_OF_RANGE)
        return number

    def _from_number(self, at: int, kind: str, text: str) -> Any:
        if kind in ("float", "double"):
            # Jackson has no whole -0.
            return 0.0 if text == "-0" else NON_NUMBERS.get(text) or float(text)
        if kind == "decimal" and text not in NON_NUMBERS:
            return self._decimal(at, text)
        if kind == "timestamp":
            seconds = self._whole(at, text, 64)
            if not -(2**63) <= seconds * 1_000_000 < 2**63:
                raise self._unfit(at, JsonReason.OUT_OF_RANGE)
            return seconds * 1_000_000
        raise self._unfit(at, JsonReason.WRONG_TYPE)

    def _from_text(self, at: int, kind: str, text: str) -> Any:
        if kind in ("float", "double"):
            if text in NON_NUMBERS:
                return NON_NUMBERS[text]
        elif kind == "decimal":
            return self._decimal(at, text.replace(",", ""))
        elif kind in ("date", "timestamp", "timestamp_ntz", "binary"):
            found: int | bytes | None
            if kind == "date":
                found = read_date(text)
            else:
                found = read_base64(text) if kind == "binary" else self._timestamp(kind, text)
            if found is not None:
                return found
            raise self._unfit(at, JsonReason.BAD_TEXT)
        raise self._unfit(at, JsonReason.WRONG_TYPE)

    def _timestamp(self, kind: str, text: str) -> int | None:
        return read_timestamp(text, self._ahead if kind == "timestamp" else None)

    def _decimal(self, at: int, text: str) -> Any:
        target = self._fields[at].type
        try:
            found = read_decimal(text, target.precision, target.scale)
        except OverflowError:
            raise self._unfit(at, JsonReason.OUT_OF_RANGE) from None
        if found is None:
            raise self._unfit(at, JsonReason.BAD_TEXT)
        return found


def _is_escaped(record: bytes) -> bool:
    """Whether the record's bytes are text, so that what is none came from an escape."""
    try:
        record.decode()
    except UnicodeDecodeError:
        return False
    return True
