"""Columns become JSON as Spark's ``to_json`` writes it without options: column by column, by Arrow's functions.

A field that is null is left out; an element, or a map's value, is ``null``.  Times have milliseconds: ``to_json`` cuts off the rest.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from itertools import starmap
from math import isfinite, isnan
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.json_zone import UnknownZoneError, zone_table

CYCLE_S: Final = 12_622_780_800
"""400 years, after which the calendar begins again."""
SPECIAL: Final = r'["\\\x00-\x1f]'
ESCAPES: Final = str.maketrans(
    {chr(code): f"\\u{code:04X}" for code in range(32)}
    | {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
)
"""As Jackson writes them."""
Numbers = np.ndarray[tuple[int], np.dtype[Any]]


class JsonRecords:
    """Writes columns of structs; ``zone`` is that of timestamps, "" for the column's own, which is the session's."""

    def __init__(self, zone: str = "", path: str = "value") -> None:
        self._zone, self._path = zone, path

    def encode(self, column: pa.Array) -> pa.Array:
        """As many records (binary) as the array of structs has, null where it is null.  Raises OptionError for an unknown zone."""
        return self._text(column).cast(pa.binary())

    def _text(self, column: pa.Array) -> pa.Array:
        """The JSON of each value, null where it is null."""
        kind = column.type
        if pa.types.is_struct(kind):
            if not kind.num_fields:
                return _masked(column, pa.repeat("{}", len(column)))
            names = [f',"{field.name.translate(ESCAPES)}":' for field in kind]
            fields = [_join(name, self._text(column.field(place))) for place, name in enumerate(names)]
            # Arrow's null_handling="skip" loses the rows in which all are null.
            joined = pc.binary_join_element_wise(*fields, "", null_handling="replace", null_replacement="")
            return _masked(column, _join("{", pc.utf8_slice_codeunits(joined, 1), "}"))
        if pa.types.is_map(kind):
            items = _join(self._text(column.keys), ":", pc.fill_null(self._text(column.items), "null"))
            return _join("{", self._lists(column, items), "}")
        if pa.types.is_list(kind):
            return _join("[", self._lists(column, pc.fill_null(self._text(column.values), "null")), "]")
        if pa.types.is_floating(kind):
            numbers = zip(column.cast(pa.string()).to_pylist(), column.to_pylist(), strict=True)
            return _strings(starmap(_java_number, numbers))
        if pa.types.is_temporal(kind):
            return _join('"', self._times(column), '"')
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return _join('"', _strings(map(_base64, column.to_pylist())), '"')
        text = column.cast(pa.string())
        return _quoted(text) if text.type == kind or pa.types.is_large_string(kind) else text

    def _lists(self, column: pa.Array, items: pa.Array) -> pa.Array:
        """The items of each list with commas."""
        return _masked(column, pc.binary_join(pa.ListArray.from_arrays(column.offsets, items), ","))

    def _times(self, column: pa.Array) -> pa.Array:
        """Dates, timestamps with their zone, and those without one."""
        is_date = pa.types.is_date(column.type)
        numbers = column.cast(pa.int32() if is_date else pa.int64()).fill_null(0).to_numpy().astype(np.int64)
        if is_date:
            return _masked(column, _iso(numbers.view("datetime64[D]")))
        if column.type.tz is None:
            return _masked(column, _iso((numbers // 1000).view("datetime64[ms]")))
        place, ahead_s, ends = self._offsets(column.type.tz, numbers // 1_000_000)
        local = (numbers // 1000 + ahead_s[place] * 1000).view("datetime64[ms]")
        return _masked(column, _join(_iso(local), pa.array(ends).take(pa.array(place))))

    def _offsets(self, own_zone: str, seconds: Numbers) -> tuple[Numbers, Numbers, list[str]]:
        """By time, the place of its offset; and all offsets, in seconds and as they are written."""
        try:
            starts, ahead_s, end = _by_utc(self._zone or own_zone)
        except UnknownZoneError as error:
            raise OptionError(f"option {self._path}.timezone, for the session's time zone: {error}") from None
        seconds = seconds - np.maximum(0, (seconds - end) // CYCLE_S + 1) * CYCLE_S
        return np.searchsorted(starts, seconds, side="right"), ahead_s, list(map(_offset, ahead_s.tolist()))


@cache
def _by_utc(zone: str) -> tuple[Numbers, Numbers, int]:
    """When a zone's offsets change, in seconds of UTC, the offsets from before the first change on, and where the table ends."""
    table = zone_table(zone) or ((0, 0), (0, 0))
    ahead = [offset for _, offset in table[:-1]]
    # By what clocks show, a change comes once the later of both offsets shows it (json_zone).
    starts = [table[place][0] - max(ahead[place - 1 : place + 1]) for place in range(1, len(ahead))]
    return np.array(starts, np.int64), np.array(ahead, np.int64), table[-1][0] - ahead[-1]


def _offset(ahead_s: int) -> str:
    """As Java writes it in a timestamp, with seconds where clocks went by the sun.

    >>> _offset(19800), _offset(-17762), _offset(0)
    ('+05:30', '-04:56:02', 'Z')
    """
    minutes, seconds = divmod(abs(ahead_s), 60)
    text = f"{'-' if ahead_s < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{seconds:02}" if seconds else text if ahead_s else "Z"


def _iso(times: Numbers) -> pa.Array:
    """Times as ISO 8601 has them; of years that have not four digits, Java writes the sign."""
    texts = np.datetime_as_string(times)
    years = times.astype("datetime64[Y]").astype(np.int64) + 1970
    if not len(odd := np.flatnonzero((years < 0) | (years > 9999))):
        return pa.array(texts, pa.string())
    whole = texts.tolist()
    for place in odd:
        whole[place] = f"{years[place]:+05}-{whole[place][1:].partition('-')[2]}"
    return pa.array(whole, pa.string())


def _java_number(text: str | None, number: float) -> str | None:
    """A number's shortest text as Java writes it, whose newer versions write the fewest digits, but two.

    >>> [_java_number(text, float(text)) for text in ("1", "-0", "1e+22", "0.00012", "5e-324", "nan", "12345678.5")]
    ['1.0', '-0.0', '1.0E22', '1.2E-4', '4.9E-324', '"NaN"', '1.23456785E7']
    """
    if text is None:
        return None
    if not isfinite(number):
        return '"NaN"' if isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'
    if not number or 1e-3 <= abs(number) < 1e7:
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    if len(digits) == 1:  # among numbers of two digits another one may be nearer, if there are as few bits
        sign, digits, exponent = Decimal(f"{number:.1e}").as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{len(digits) - 1 + int(exponent)}"


def _base64(value: bytes | None) -> str | None:
    return None if value is None else b2a_base64(value, newline=False).decode()


def _quoted(column: pa.Array) -> pa.Array:
    """Strings of JSON."""
    special = pc.match_substring_regex(column, SPECIAL).fill_null(False)
    if special.true_count:
        escaped = [text.translate(ESCAPES) for text in column.filter(special).to_pylist()]
        column = pc.replace_with_mask(column, special, pa.array(escaped, pa.string()))
    return _join('"', column, '"')


def _join(*parts: Any) -> pa.Array:
    """The parts of each row in one text, null where one is."""
    return pc.binary_join_element_wise(*parts, "")


def _masked(column: pa.Array, texts: pa.Array) -> pa.Array:
    """The texts, null where the column is null."""
    return pc.if_else(column.is_valid(), texts, None) if column.null_count else texts


def _strings(texts: Iterable[str | None]) -> pa.Array:
    return pa.array(list(texts), pa.string())
