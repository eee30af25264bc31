"""A layered mapping is a dict in all but what a change of it costs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.group.persistent_map import MOST_RECENT, Layered, with_value

KEYS = st.sampled_from("abcdef")


@given(st.dictionaries(KEYS, st.integers()), st.lists(st.tuples(KEYS, st.integers()), max_size=3 * MOST_RECENT))
def test_whatever_changes_it_is_what_a_dict_would_be(first: dict[str, int], changes: list[tuple[str, int]]) -> None:
    """Every change makes a copy that equals the changed dict, and leaves what it was made of."""
    plain, layered = dict(first), Layered(first, {}, len(first))
    for key, value in changes:
        before = dict(layered)
        plain[key] = value
        after = with_value(layered, key, value)
        assert dict(layered) == before, "a copy is changed, not the value"
        layered = after
    assert layered == plain
    assert plain == layered
    assert list(layered.items()) == list(plain.items()), "in the same order"
    assert len(layered) == len(plain)
    assert ("a" in layered) == ("a" in plain)
    assert repr(layered) == repr(plain)


def test_a_change_copies_few_of_many() -> None:
    """The base is shared between copies until the changes over it are made a new base."""
    many: dict[str, int] = {str(number): number for number in range(1000)}
    layered = with_value(many, "1", 0)
    for number in range(1000):
        before, layered = layered, with_value(layered, str(number), -1)
        assert len(layered._recent) <= MOST_RECENT
        assert layered._base is before._base or len(before._recent) == MOST_RECENT
    assert set(layered.values()) == {-1}
