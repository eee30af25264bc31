"""How far behind groups are: sums, limits and words."""

from __future__ import annotations

import pytest

from sparkcohort.cli.lag_figures import Lag, find_excesses, parse_limit, total, total_by, trend

LAGS = {
    ("billing", "orders", 0): Lag(10, 5.0),
    ("billing", "orders", 1): Lag(0, 0.0),
    ("billing", "returns", 0): Lag(5, 60.0),
    ("audit", "orders", 0): Lag(7, None),
}


def test_the_parts_are_the_whole() -> None:
    """Records add up, the oldest counts; what isn't known of a part isn't known of the whole."""
    assert total_by(LAGS, 1) == {("audit",): Lag(7, None), ("billing",): Lag(15, 60.0)}
    assert total_by(LAGS, 2)["billing", "orders"] == Lag(10, 5.0)
    assert total_by(LAGS, 3) == LAGS
    assert total([]) == Lag(None, None)
    assert total([Lag(None, 1.0), Lag(2, 1.0)]) == Lag(None, 1.0)


@pytest.mark.parametrize("text", ["", "ten", "-1", "5 m", "5w", "1e3", "1" * 16])
def test_what_is_no_limit(text: str) -> None:
    """One sentence that shows both ways to say it."""
    with pytest.raises(
        ValueError, match=r"neither a number of records, such as 10000, nor a time, such as 30s, 5m or 2h"
    ):
        parse_limit(text)


def test_what_is_above_a_limit() -> None:
    """What isn't known while records wait is too much; where none wait, time is none."""
    groups = total_by(LAGS, 1)
    assert find_excesses(groups, Lag(14, None)) == ["group billing: 15 records"]
    assert find_excesses(groups, Lag(15, None)) == []
    assert find_excesses(groups, Lag(None, 59.0)) == ["group audit: an unknown time", "group billing: 60 s"]
    assert find_excesses({("g",): Lag(0, None)}, Lag(None, 0.0)) == []
    assert find_excesses({("g",): Lag(None, None)}, Lag(5, None)) == ["group g: an unknown number of records"]


def test_trends_in_words() -> None:
    """What comes and goes within a batch is steady; who came since has none."""
    assert trend(Lag(1_000, None), Lag(1_010, None), 1.0) == "steady"
    assert trend(Lag(1_000, None), Lag(1_011, None), 2.0) == "grows by 5.5/s"
    assert trend(Lag(50, None), Lag(0, None), 0.5) == "falls by 100/s"
    assert trend(None, Lag(0, None), 1.0) == trend(Lag(1, 1.0), Lag(None, 1.0), 1.0) == ""
