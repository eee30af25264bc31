"""Which ends of a campaign's query and driver are excused: one for each blow, of whom it was for, for its reason."""

from __future__ import annotations

from tests.chaos.endings import DRIVER, EXCUSED_S, QUERY, STOPPED, Ending, Excuses

KILLED = Ending(DRIVER, "ended with -9")
THROWN = Ending(QUERY, "told to throw")
RUNNER = Ending(QUERY)
FULL = Ending(QUERY, "No space left", once=False)


def test_nothing_is_excused_by_itself() -> None:
    """Whoever ends for whatever reason."""
    assert not Excuses().take(QUERY, STOPPED, 0.0)


def test_a_blow_excuses_one_end() -> None:
    """Of whom it was for, for the reason that it gives, in its time."""
    excuses = Excuses()
    for _ in range(2):
        excuses.allow(THROWN, 10.0)
    assert not excuses.take(DRIVER, "it was told to throw", 11.0)
    assert not excuses.take(QUERY, "no offsets", 11.0)
    assert excuses.take(QUERY, "it was told to throw", 11.0)
    assert not excuses.take(QUERY, "it was told to throw", 10.0 + EXCUSED_S)


def test_what_lasts_excuses_each_end_for_its_reason() -> None:
    """A full disk ends the query again and again."""
    excuses = Excuses()
    excuses.allow(FULL, 10.0)
    assert all(excuses.take(QUERY, "No space left on device", 5.0) for _ in range(3))
    assert not excuses.take(QUERY, "the coordinator is gone", 5.0)


def test_an_end_uses_the_excuse_that_names_its_reason() -> None:
    """A killed runner may end its query with any words, and that excuse is kept for them."""
    excuses = Excuses()
    excuses.allow(RUNNER, 10.0)
    excuses.allow(THROWN, 10.0)
    assert excuses.take(QUERY, "told to throw", 11.0)
    assert excuses.take(QUERY, "the coordinator is gone", 11.0)
    assert not excuses.take(QUERY, "the coordinator is gone", 11.0)


def test_a_driver_takes_its_query_along() -> None:
    """A runner that was killed just before ends nothing any more; a sink that was told to throw still does."""
    excuses = Excuses()
    for ending in (RUNNER, THROWN, KILLED):
        excuses.allow(ending, 10.0)
    assert excuses.take(DRIVER, "the driver ended with -9: killed", 11.0)
    assert not excuses.take(QUERY, "the coordinator is gone", 12.0)
    assert excuses.take(QUERY, "told to throw", 12.0)
    assert not excuses.take(DRIVER, "the driver ended with -9", 12.0)
