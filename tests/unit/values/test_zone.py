"""The table of a zone beside the time zone database that it is made of."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.values.json.zone import UnknownZoneError, local_offset, packed_zone, zone_of, zone_table

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  local times
SOME = sorted(available_timezones() & {
    "Africa/Casablanca", "America/Argentina/San_Luis", "America/New_York", "Antarctica/Troll", "Asia/Gaza", "Asia/Tehran",
    "Australia/Lord_Howe", "Europe/Dublin", "Europe/London", "Pacific/Apia", "Pacific/Kwajalein",
})  # fmt: skip


@given(st.sampled_from(SOME), st.datetimes(datetime(1800, 1, 2), datetime(2436, 12, 31)))  # noqa: DTZ001  local times
def test_every_moment_is_the_databases(name: str, local: datetime) -> None:
    """Also where a clock shows a time twice or never: Python's ``fold=0`` is Java's choice."""
    second = (local - EPOCH) // timedelta(seconds=1)
    ahead = local.replace(tzinfo=ZoneInfo(name)).utcoffset()
    assert ahead is not None
    assert local_offset(zone_table(name), second) == ahead.total_seconds()


def test_what_is_beyond_the_table() -> None:
    """Before it as at its beginning, behind it as 400 years before, as often as needed."""
    table = zone_table("America/New_York")
    july = (datetime(2426, 7, 1) - EPOCH) // timedelta(seconds=1)  # noqa: DTZ001
    assert [local_offset(table, july + eras * 146_097 * 86_400) for eras in (1, 2, 700)] == [-4 * 3600] * 3
    assert local_offset(table, -(10**13)) == table[0][1]
    assert len(packed_zone(table)) == 16 * len(table)


@pytest.mark.parametrize("name", ["UTC", "Z", "+00:00", "GMT", "Etc/UTC"])
def test_utc_needs_no_table(name: str) -> None:
    """By whatever name."""
    assert zone_table(name) == ()


@pytest.mark.parametrize(
    "name", ["", "Berlin", "Europe", "../etc/passwd", "/etc/localtime", "+25:00", "Europe/Berlin\0", "x" * 999]
)
def test_what_is_no_zone(name: str) -> None:
    """One error, which says what to write."""
    with pytest.raises(
        UnknownZoneError, match=r"is no time zone of this host, .*: write a region such as Europe/Berlin, or an offset"
    ):
        zone_of(name)
