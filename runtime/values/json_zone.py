"""How far a time zone's clocks are ahead of UTC, by what they show: a table that native/values/json.c takes as it is.

A clock shows some times twice, and leaves others out.  Java's ``LocalDateTime.atZone``, by which Spark reads a timestamp
without a zone, takes the earlier of two, and moves one that never was by what was left out: so does Python with ``fold=0``.
"""

from __future__ import annotations

import re
import struct
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

ZoneTable: TypeAlias = tuple[tuple[int, int], ...]
"""From which second of local time on a zone is how many seconds ahead of UTC, in order.

The last one tells where the table ends: what comes after it is as it was 400 years before.  Before the first it is as after.
() is UTC.
"""

FIRST, END = datetime(1800, 1, 1), datetime(2437, 1, 1)  # noqa: DTZ001  local times; by 2037 all rules recur each year
EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  as above
BY_RULES: Final = datetime(2040, 1, 1)  # noqa: DTZ001  likewise; from then on no clock is changed twice within a week
STEP, RULES_STEP = timedelta(days=1), timedelta(days=7)
REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?([+-])(?:([0-9]{1,2})|([0-9]{2})([0-9]{2})([0-9]{2})?|([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{2}))?)"
)
NO_OFFSET = ("Z", "UTC", "GMT", "UT")
MOST_OFFSET_S: Final = 18 * 3600


class UnknownZoneError(ValueError):
    """No zone has this name."""


@cache
def zone_table(name: str) -> ZoneTable:
    """The table of a region (``Europe/Berlin``) or an offset (``+05:30``); () for UTC.  Raises UnknownZoneError.

    >>> zone_table("+05:30"), zone_table("UTC")
    (((-5364662400, 19800), (14737161600, 0)), ())
    """
    zone = zone_of(name)
    fixed = zone.utcoffset(None)  # None of a zone with rules: only that has to be gone through
    if fixed is not None:
        return ((_seconds(FIRST), fixed // timedelta(seconds=1)), (_seconds(END), 0)) if fixed else ()
    table = [(_seconds(FIRST), _ahead(zone, FIRST))]
    day = FIRST
    while day < END:
        next_day = day + (STEP if day < BY_RULES else RULES_STEP)
        if _ahead(zone, next_day) != table[-1][1]:
            change = _first_change(zone, day, next_day, table[-1][1])
            table.append((_seconds(change), _ahead(zone, change)))
        day = next_day
    return (*table, (_seconds(END), 0))


def zone_of(name: str) -> tzinfo:
    """The zone of this name.  Raises UnknownZoneError."""
    fixed = read_offset(name)
    if fixed is not None:
        return timezone(timedelta(seconds=fixed))
    try:
        if REGION.fullmatch(name):
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # nothing of this name, or a folder, in the time zone database
        pass
    raise UnknownZoneError(
        f"{name[:100]!r} is no time zone of this host, nor of the package tzdata: write a region such as Europe/Berlin, or an "
        "offset such as +05:30"
    )


def read_offset(zone: str) -> int | None:
    """Seconds ahead of UTC, of Z, an offset, or one behind UTC, GMT or UT; None of anything else.

    >>> read_offset("+05:30"), read_offset("GMT-1"), read_offset("Europe/Berlin")
    (19800, -3600, None)
    """
    if zone in NO_OFFSET:
        return 0
    offset = OFFSET.fullmatch(zone)
    if not offset:
        return None
    sign, alone, *parts = offset.groups()
    hours, minutes, seconds = (int(short or long or 0) for short, long in zip(parts[:3], parts[3:], strict=True))
    hours = int(alone or hours)
    ahead = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or ahead > MOST_OFFSET_S:
        return None
    return -ahead if sign == "-" else ahead


def packed_zone(table: ZoneTable) -> bytes:
    """The table as native/values/json.c takes it."""
    return b"".join(struct.pack("=2q", *each) for each in table)


def _first_change(zone: tzinfo, low: datetime, high: datetime, ahead: int) -> datetime:
    """The first second of local time at which the zone is no longer so far ahead, where it is at ``low`` and isn't at ``high``."""
    while high - low > timedelta(seconds=1):
        middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
        if _ahead(zone, middle) == ahead:
            low = middle
        else:
            high = middle
    return high


def _ahead(zone: tzinfo, local: datetime) -> int:
    offset = local.replace(tzinfo=zone).utcoffset()
    return round(offset / timedelta(seconds=1)) if offset is not None else 0


def _seconds(local: datetime) -> int:
    return (local - EPOCH) // timedelta(seconds=1)
