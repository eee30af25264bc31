"""Fetch sessions by KIP-227's rules, and against a broker's side of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.kafka.fetch_messages import FetchPartition, Key, Request
from sparkcohort.runtime.kafka.fetch_session import FetchSession

A, B, C = (bytes([letter]) * 16 for letter in b"abc")
ONE, TWO, THREE = (A, 0), (A, 1), (B, 0)


def at(offset: int) -> FetchPartition:
    """A partition wanted from this offset."""
    return FetchPartition(0, offset, -1, 1 << 20)


def test_full_then_what_has_changed() -> None:
    """The first request names all; the next ones what moved, what is new, and what is wanted no more."""
    session = FetchSession()
    assert session.request({ONE: at(0), TWO: at(5)}) == Request((0, 0), {ONE: at(0), TWO: at(5)}, frozenset())
    session.record_answer(77)
    assert session.request({ONE: at(3), TWO: at(5)}) == Request((77, 1), {ONE: at(3)}, frozenset())
    session.record_answer(77)
    assert session.request({ONE: at(3), THREE: at(0)}) == Request((77, 2), {THREE: at(0)}, frozenset({TWO}))
    session.record_answer(77)
    assert session.request({ONE: at(3), THREE: at(0)}) == Request((77, 3), {}, frozenset())


def test_what_has_moved_only() -> None:
    """The same as naming all that is wanted; where the request has to be full, there is none."""
    session = FetchSession()
    assert session.request_changes({}) is None
    session.request({ONE: at(0), TWO: at(0)})
    session.record_answer(77)
    assert session.request_changes({TWO: at(4)}) == Request((77, 1), {TWO: at(4)}, frozenset())
    session.record_answer(77)
    assert session.request({ONE: at(0), TWO: at(4)}) == Request((77, 2), {}, frozenset())
    session.record_answer(77)
    assert session.request_changes({}) == Request((77, 3), {}, frozenset())
    session.drop_session()
    assert session.request_changes({ONE: at(9)}) is None
    assert session.request({ONE: at(9)}) == Request((0, 0), {ONE: at(9)}, frozenset())


def test_epochs_begin_again_at_one() -> None:
    """Behind the last one; 0 would begin a session."""
    session = FetchSession(77, 2**31 - 1, {ONE: at(0)})
    assert session.request({ONE: at(0)}).session == (77, 2**31 - 1)
    session.record_answer(77)
    assert session.request({ONE: at(0)}).session == (77, 1)


KEYS = st.sampled_from([ONE, TWO, THREE, (C, 9)])
STEPS = st.tuples(
    st.dictionaries(KEYS, st.integers(0, 3).map(at)),
    st.frozensets(KEYS, max_size=1),
    st.sampled_from(["answered", "answered", "answered", "refused", "disconnected", "without"]),
)


@given(st.lists(STEPS, max_size=20))
def test_the_broker_knows_what_is_wanted(steps: list[tuple[dict[Key, FetchPartition], frozenset[Key], str]]) -> None:
    """Whatever is asked and lost on the way: after each request the broker's side is exactly what is wanted."""
    session, held, number, epoch = FetchSession(), dict[Key, FetchPartition](), 0, 0
    for wanted, anew, how in steps:
        told = dict(held)
        request = session.request(wanted, anew)
        if request.session[1] == 0:
            assert request.session[0] in (0, number)
            held, number, epoch, told = dict(request.partitions), number + 1, 0, {}
        else:
            assert request.session == (number, epoch)
            assert not request.forgotten - held.keys()
            held = {key: one for key, one in held.items() if key not in request.forgotten} | dict(request.partitions)
        assert held == wanted
        assert all(told.get(key) is None for key in anew & wanted.keys())
        epoch += 1
        if how == "answered":
            session.record_answer(number)
        elif how == "without":
            session.record_answer(0)
        else:
            session.drop_session()
