"""What leads a viewer from one document to the next."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.shell.driver.live_feed import LiveFeed, changes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "+"]),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.sampled_from("abc0"), parts, max_size=4),
    max_leaves=12,
)


def applied(value: Any, change: Any) -> Any:
    """As ``applyChange`` in dashboards/page/model.js, line by line."""
    if change is None:
        return value
    if isinstance(change, list):
        return change[0]
    if isinstance(value, list) and "+" in change:
        return value[change["-"] :] + change["+"]
    for key, part in change.items():
        if key == "-" and isinstance(value, dict):
            for gone in part:
                del value[gone]
        elif isinstance(value, list):
            value[int(key)] = applied(value[int(key)], part)
        else:
            value[key] = applied(value.get(key), part)
    return value


@given(VALUES, VALUES)
def test_the_change_leads_from_any_document_to_any_other(former: Any, current: Any) -> None:
    """Through JSON, whatever is added, replaced or gone."""
    change = json.loads(json.dumps(changes(former, current)))
    assert applied(json.loads(json.dumps(former)), change) == current


def test_what_moves_on_costs_what_is_new() -> None:
    """A ring of samples, and a row of many whose lag has changed."""
    assert changes([1, 2, 3], [2, 3, 4]) == {"-": 1, "+": [4]}
    rows = [{"partition": number, "lag": 0} for number in range(3)]
    assert changes({"rows": rows}, {"rows": [rows[0], {**rows[1], "lag": 7}, rows[2]]}) == {"rows": {"1": {"lag": [7]}}}


def test_a_place_that_no_viewer_was_given_gets_the_whole_document() -> None:
    """``Last-Event-ID`` comes from outside: another run's, a number without end, or no number."""
    feed = LiveFeed(lambda: {"state": "Stable"})
    first = _first_event(feed, "")
    run = first.partition(b"id: ")[2].partition(b".")[0].decode()
    assert {_first_event(feed, place) for place in ("1.1", f"{run}.{'9' * 5_000}", f"{run}.-1", "x")} == {first}
    assert first.startswith(b"event: document\n")


def _first_event(feed: LiveFeed, last_id: str) -> bytes:
    events = feed.events(last_id)
    next(events)  # how soon to come back
    return next(events)
