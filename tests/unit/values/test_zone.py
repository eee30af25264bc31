"""The table of a zone beside the time zone database that it is made of."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.shell.values.json_decoder import JsonValues
from sparkcohort.runtime.values.json_zone import UnknownZoneError, zone_of, zone_table
from sparkcohort.runtime.values.types import ColumnType, struct
from tests.kit.tier import of_tier

SOME = sorted(available_timezones() & {
    "Africa/Casablanca", "America/Argentina/San_Luis", "America/New_York", "Antarctica/Troll", "Asia/Gaza", "Asia/Tehran",
    "Australia/Lord_Howe", "Europe/Dublin", "Europe/London", "Pacific/Apia", "Pacific/Kwajalein",
})  # fmt: skip


def offset_s(zone: str, text: str) -> float:
    """How many seconds ahead of UTC a text without a zone is, as the decoder reads it with the zone's table."""
    record = pa.array([f'{{"local":"{text}","there":"{text}"}}'.encode()])
    target = struct({"local": ColumnType("timestamp_ntz"), "there": ColumnType("timestamp")})
    rows, _ = JsonValues(target, zone=zone_table(zone)).decode(record)
    local, there = (rows.field(place)[0].value for place in (0, 1))
    return float(local - there) / 1_000_000


ZONES = of_tier(quick=SOME[::3], thorough=SOME)
MOMENTS = st.datetimes(datetime(1800, 1, 2), datetime(2436, 12, 31))  # noqa: DTZ001  local times


@given(st.sampled_from(ZONES), MOMENTS)
def test_every_moment_is_the_databases(name: str, local: datetime) -> None:
    """Also where a clock shows a time twice or never: Python's ``fold=0`` is Java's choice."""
    ahead = local.replace(tzinfo=ZoneInfo(name)).utcoffset()
    assert ahead is not None
    assert offset_s(name, local.isoformat()) == ahead.total_seconds()


def test_what_is_beyond_the_table() -> None:
    """Before it as at its beginning, behind it as 400 years before, as often as needed."""
    name = "America/New_York"
    assert [offset_s(name, f"{2426 + 400 * eras}-07-01") for eras in (1, 2, 700)] == [-4 * 3600] * 3
    assert offset_s(name, "-0044-03-15") == zone_table(name)[0][1]


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
