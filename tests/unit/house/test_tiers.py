"""What only ``make test-all`` runs says why, and a command lists it."""

from __future__ import annotations

from tests.kit.tiers import table, uses, uses_in

MOST_WORDS = 10


def test_each_use_of_the_marker_has_a_reason() -> None:
    """One literal string of ten words at most, which says what the test is, not that it is slow."""
    assert [use for use in uses() if use.reason is None or not 0 < len(use.reason.split()) <= MOST_WORDS] == []
    assert [use for use in uses() if str(use.reason).lower().startswith("slow")] == []


def test_a_use_is_found_wherever_it_stands() -> None:
    """At a test, at a parameter, for a file; without a reason, and with one that is made."""
    source = """
pytestmark = [pytest.mark.thorough("a"), pytest.mark.timeout(9)]
@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.thorough("b"))])
@pytest.mark.thorough
@pytest.mark.thorough(f"{n}")
def test_one(n): ...
"""
    assert [(use.line, use.reason) for use in uses_in(source, "f")] == [(2, "a"), (3, "b"), (4, None), (5, None)]


def test_the_table_has_each_reason() -> None:
    """A row for each file, as CONTRIBUTING.md promises."""
    rows = table().splitlines()
    assert [use for use in uses() if not any(use.file in row and str(use.reason) in row for row in rows)] == []
