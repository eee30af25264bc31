"""What is counted over a whole run."""

from __future__ import annotations

from sparkcohort.runtime.protocol.calls import MalformedCount
from sparkcohort.runtime.shell.coordinator.totals import MOST_KINDS, MalformedTotals
from sparkcohort.runtime.values.formats import Format, reasons


def test_bad_records_from_nought() -> None:
    """Whatever may occur has a row before it does; what members tell is added up."""
    totals = MalformedTotals()
    known = reasons(Format.JSON)
    assert {"syntax", "utf8", "too_large"} < set(known)
    assert {row["count"] for row in totals.as_value(["t"], known)} == {0}
    assert len(totals.as_value(["t", "u"], known)) == 2 * len(known)
    totals.add([MalformedCount("t", "syntax", 3), MalformedCount("u", "utf8", 1)])
    totals.add([MalformedCount("t", "syntax", 4)])
    assert totals.as_value((), ()) == [
        {"topic": "t", "reason": "syntax", "count": 7},
        {"topic": "u", "reason": "utf8", "count": 1},
    ]


def test_nonsense_takes_no_memory() -> None:
    """Reasons that there aren't are nobody's, and of topics there is an end."""
    totals = MalformedTotals()
    totals.add([MalformedCount("t", "no such reason", 3)])
    assert totals.as_value((), ()) == []
    totals.add(MalformedCount(f"t{number}", "syntax", 1) for number in range(MOST_KINDS + 5))
    totals.add([MalformedCount("t0", "syntax", 1)])
    rows = totals.as_value((), ())
    assert len(rows) == MOST_KINDS
    assert rows[0] == {"topic": "t0", "reason": "syntax", "count": 2}
