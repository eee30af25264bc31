"""The metrics of Spark's own Kafka source, out of a progress event."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort import offsets_behind_latest

END = {"orders": {"0": 7, "1": 5}, "orders@id": {}}


def progress(*sources: tuple[Any, Any]) -> dict[str, Any]:
    """As ``query.lastProgress`` has it: (end, latest) by source."""
    return {"sources": [{"endOffset": end, "latestOffset": latest} for end, latest in sources]}


def test_of_each_source() -> None:
    """In Spark's names, as text; of what only the ends of the logs have nothing is known yet."""
    found = offsets_behind_latest(progress((END, {"orders": {"0": 7, "1": 12, "2": 99}}), (END, {"orders": {"0": 7}})))
    assert found == [
        {"minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "7", "avgOffsetsBehindLatest": "3.5"},
        {"minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "0", "avgOffsetsBehindLatest": "0.0"},
    ]


def test_as_text() -> None:
    """Some versions of PySpark have the offsets as JSON."""
    (found,) = offsets_behind_latest(progress((json.dumps(END), json.dumps({"orders": {"0": 8}}))))
    assert found["maxOffsetsBehindLatest"] == "1"


@pytest.mark.parametrize("latest", [None, "", {"orders": {}}, {"others": {"0": 1}}, {"orders": 7}])
def test_no_ends_are_told(latest: object) -> None:
    """No figures then."""
    assert offsets_behind_latest(progress((END, latest))) == [{}]


def test_no_progress_yet() -> None:
    """``lastProgress`` is None before the first batch."""
    assert offsets_behind_latest(None) == []


@given(
    st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner), max_leaves=6)
)
def test_another_source(end: object) -> None:
    """Whatever its offsets are, it has a place in the list."""
    assert len(offsets_behind_latest(progress((end, end)))) == 1
