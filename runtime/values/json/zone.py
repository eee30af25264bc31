"""How far a time zone's clocks are ahead of UTC, by what they show: a table that native/json takes as it is.

A clock shows some times twice, and leaves others out.  Java's ``LocalDateTime.atZone``, by which Spark reads a timestamp
without a zone, takes the earlier of two, and moves one that never was by what was left out: so does Python with ``fold=0``.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from sparkcohort.runtime.values.json.text import ERA_DAYS, read_offset

ZoneTable: TypeAlias = tuple[tuple[int, int], ...]
"""From which second of local time on a zone is how many seconds ahead of UTC, in order.

The last one tells where the table ends: what comes after it is as it was 400 years before.  Before the first it is as after.
() is UTC.
"""

FIRST, END = datetime(1800, 1, 1), datetime(2437, 1, 1)  # noqa: DTZ001  local times; by 2037 all rules recur each year
EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  as above
BY_RULES: Final = datetime(2040, 1, 1)  # noqa: DTZ001  likewise; from then on no clock is changed twice within a week
STEP, RULES_STEP = timedelta(days=1), timedelta(days=7)
ERA_S: Final = ERA_DAYS * 86_400
REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")


class UnknownZoneError(ValueError):
    """No zone has this name."""


@cache
def zone_table(name: str) -> ZoneTable:
    """The table of a region (``Europe/Berlin``) or an offset (``+05:30``); () for UTC.  Raises UnknownZoneError.

    >>> zone_table("+05:30"), zone_table("UTC")
    (((-5364662400, 19800), (14737161600, 0)), ())
    >>> local_offset(zone_table("America/New_York"), 1_782_907_200)
    -14400
    """
    zone = zone_of(name)
    fixed = zone.utcoffset(None)  # None of a zone with rules: only that has to be gone through
    if fixed is not None:
        return ((_seconds(FIRST), fixed // timedelta(seconds=1)), (_seconds(END), 0)) if fixed else ()
    found = [(_seconds(FIRST), _ahead(zone, FIRST))]
    day = FIRST
    while day < END:
        after = day + (STEP if day < BY_RULES else RULES_STEP)
        if _ahead(zone, after) != found[-1][1]:
            change = _first_change(zone, day, after, found[-1][1])
            found.append((_seconds(change), _ahead(zone, change)))
        day = after
    return (*found, (_seconds(END), 0))


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


def local_offset(table: ZoneTable, second: int) -> int:
    """How far the clock is ahead when it shows this second since 1970."""
    if not table:
        return 0
    end = table[-1][0]
    if second >= end:
        second -= ((second - end) // ERA_S + 1) * ERA_S
    return table[max(bisect_right(table[:-1], (second, 1 << 40)) - 1, 0)][1]


def packed_zone(table: ZoneTable) -> bytes:
    """The table as native/json takes it."""
    return b"".join(struct.pack("=2q", *each) for each in table)


def _first_change(zone: tzinfo, before: datetime, after: datetime, ahead: int) -> datetime:
    """The first second of local time at which the zone is no longer so far ahead, where it is at ``before`` and isn't at ``after``."""
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if _ahead(zone, middle) == ahead:
            before = middle
        else:
            after = middle
    return after


def _ahead(zone: tzinfo, local: datetime) -> int:
    offset = local.replace(tzinfo=zone).utcoffset()
    return round(offset / timedelta(seconds=1)) if offset is not None else 0


def _seconds(local: datetime) -> int:
    return (local - EPOCH) // timedelta(seconds=1)
