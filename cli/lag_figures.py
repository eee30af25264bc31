"""How far behind groups are, and whether that grows: arithmetic on two looks at the lags.

>>> at_first = {("billing", "orders", 0): Lag(100, 2.0)}
>>> [trend(Lag(100, 2.0), Lag(records, 2.0), 2.0) for records in (101, 160, 40, 0)]
['steady', 'grows by 30/s', 'falls by 30/s', 'falls by 50/s']
>>> total(at_first.values())
Lag(records=100, seconds=2.0)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

Place: TypeAlias = tuple[str, str, int]
"""Group, topic, partition."""
STEADY_PART: Final = 0.01
"""A change below this part of the lag is no trend: it comes and goes within a batch."""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Lag(NamedTuple):
    """Records that are not committed, and the age of the oldest of them in seconds; None: unknown, or of a limit, none."""

    records: int | None
    seconds: float | None


Lags: TypeAlias = Mapping[Place, Lag]


def parse_limit(text: str) -> Lag:
    """The value of ``--fail-above``: ``10000`` are records, ``30s``, ``5m``, ``2h`` and ``1d`` are time.  Raises ValueError.

    >>> parse_limit("10000"), parse_limit("5m")
    (Lag(records=10000, seconds=None), Lag(records=None, seconds=300))
    """
    match = re.fullmatch(r"([0-9]{1,15})([smhd]?)", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is neither a number of records, such as 10000, nor a time, such as 30s, 5m or 2h")
    number = int(match[1])
    return Lag(None, number * _SECONDS[match[2]]) if match[2] else Lag(number, None)


def total(lags: Iterable[Lag]) -> Lag:
    """The sum of the records, and the largest age; None if one of the parts is unknown."""
    rows = list(lags)
    records = [each.records for each in rows]
    ages = [each.seconds for each in rows]
    return Lag(
        None if None in records or not records else sum(filter(None, records)),
        None if None in ages or not ages else max(each or 0.0 for each in ages),
    )


def total_by(lags: Lags, parts: int) -> dict[tuple[object, ...], Lag]:
    """Totals by the first ``parts`` of their places, sorted: 1 by group, 2 by topic, 3 by partition."""
    groups: dict[tuple[object, ...], list[Lag]] = {}
    for place, lag in sorted(lags.items()):
        groups.setdefault(place[:parts], []).append(lag)
    return {place: total(lags_of_group) for place, lags_of_group in groups.items()}


def trend(lag_before: Lag | None, lag_now: Lag, elapsed_s: float) -> str:
    """The change of a lag, in words; empty if it is unknown."""
    if lag_before is None or lag_before.records is None or lag_now.records is None or elapsed_s <= 0:
        return ""
    change = lag_now.records - lag_before.records
    if abs(change) <= max(1, STEADY_PART * lag_before.records):
        return "steady"
    return f"{'grows' if change > 0 else 'falls'} by {abs(change) / elapsed_s:.3g}/s"


def find_excesses(lags: Mapping[tuple[object, ...], Lag], limit: Lag) -> list[str]:
    """The lags above the limit, in words; an unknown one counts as above it while records wait."""
    excesses = []
    for place, lag in lags.items():
        name = "group " + " ".join(map(str, place))
        if limit.records is not None and (lag.records is None or lag.records > limit.records):
            excesses.append(f"{name}: {'an unknown number of' if lag.records is None else lag.records} records")
        if limit.seconds is not None and lag.records != 0 and (lag.seconds is None or lag.seconds > limit.seconds):
            excesses.append(f"{name}: {'an unknown time' if lag.seconds is None else f'{lag.seconds:.0f} s'}")
    return excesses
