"""What Spark reads out of JSON's strings: dates, times, decimals, base64; native/json/text.c does the same."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import re
from collections.abc import Callable
from decimal import MAX_PREC, ROUND_HALF_UP, Context, Decimal, InvalidOperation

ERA_YEARS, ERA_DAYS = 400, 146_097
EPOCH = dt.date(1970, 1, 1).toordinal()
BLANKS = "".join(map(chr, range(33))) + "\x7f"
DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
DAYS = re.compile(r"([+-]?)0*([0-9]{1,10})")
TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?(?![0-9])(.*))?)?)?)?)?",
    re.DOTALL,
)
OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9]{1,2})|([0-9]{2})([0-9]{2})([0-9]{2})?|([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{2}))?)"
)
NO_OFFSET = ("Z", "UTC", "GMT", "UT")
MOST_OFFSET = 18 * 3600
FIRST_GREGORIAN = -141_427  # 1582-10-15
DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
GROUPS = re.compile(r"[\x00-\x20]*((?:[^\x00-\x20]{4}[\x00-\x20]*)*)", re.DOTALL)
EXACT = Context(prec=MAX_PREC, Emax=10**9, Emin=-(10**9), traps=[InvalidOperation])


def _days(sign: str, year: str, month: str | None, day: str | None) -> int | None:
    eras, place = divmod(int(sign + year), ERA_YEARS)
    try:
        date = dt.date(2000 + place, int(month or 1), int(day or 1))
    except ValueError:
        return None
    return date.toordinal() - EPOCH + (eras - 5) * ERA_DAYS


def read_date(text: str) -> int | None:
    """Days since 1970.

    >>> read_date("2020-2-3"), read_date("0001"), read_date("2020-02-30"), read_date("18 days")
    (18295, -719162, None, None)
    """
    found = DATE.fullmatch(text.strip(BLANKS))
    days = _days(*found.groups()) if found else None
    if days is not None and -(2**31) <= days < 2**31:
        return days
    found = DAYS.fullmatch(text)
    days = int("".join(found.groups())) if found else None
    return days if days is not None and FIRST_GREGORIAN <= days < 2**31 else None


def read_offset(zone: str) -> int | None:
    """Seconds ahead of UTC, of Z, an offset, or one behind UTC, GMT or UT; None of anything else.

    >>> read_offset("+05:30"), read_offset("GMT-1"), read_offset("Europe/Berlin")
    (19800, -3600, None)
    """
    if zone in NO_OFFSET:
        return 0
    found = OFFSET.fullmatch(zone)
    if not found:
        return None
    sign, alone, *parts = found.groups()
    hours, minutes, seconds = (int(short or long or 0) for short, long in zip(parts[:3], parts[3:], strict=True))
    hours = int(alone or hours)
    offset = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or offset > MOST_OFFSET:
        return None
    return -offset if sign == "-" else offset


def read_timestamp(text: str, ahead: Callable[[int], int] | None) -> int | None:
    """Microseconds since 1970; ``ahead`` tells where a text without a zone is from, None refuses one that names a zone.

    >>> read_timestamp("1970-01-01T01:00:00.5+01:00", lambda _: 0), read_timestamp("1970-01-01 0:0:0Z", None)
    (500000, None)
    """
    found = TIMESTAMP.fullmatch(text.strip(BLANKS))
    if not found:
        return None
    *date, hour, minute, second, fraction, zone = found.groups()
    days = _days(*date)
    offset = read_offset(zone.strip(BLANKS)) if zone else 0
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or offset is None or (zone and ahead is None) or clock[0] > 23 or max(clock[1:]) > 59:
        return None
    local = days * 86400 + clock[0] * 3600 + clock[1] * 60 + clock[2]
    seconds = local - (offset if zone or ahead is None else ahead(local))
    micros = seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
    return micros if -(2**63) <= days * 86_400_000_000 < 2**63 and -(2**63) <= micros < 2**63 else None


def read_decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Rounded half up to the scale.  Raises OverflowError where it has more digits than the precision."""
    if not DECIMAL.fullmatch(text):
        return None
    number = EXACT.create_decimal(text)
    if number.is_zero():
        return Decimal(0).scaleb(-scale)
    if number.is_infinite() or number.adjusted() >= precision:
        raise OverflowError
    if number.adjusted() < -scale - 1:
        return Decimal(0).scaleb(-scale)
    try:
        rounded = number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    except InvalidOperation:
        raise OverflowError from None
    if rounded and rounded.adjusted() + scale + 1 > precision:
        raise OverflowError
    return rounded or abs(rounded)


def read_base64(text: str) -> bytes | None:
    """The bytes; spaces may stand between groups of four."""
    found = GROUPS.fullmatch(text)
    letters = re.sub(r"[\x00-\x20]", "", text)
    if not found or not BASE64.fullmatch(letters):
        return None
    try:
        return base64.b64decode(letters, validate=True)
    except binascii.Error:
        return None
