"""What a member says, at the door: what can't be true is dropped and told, what can't be read is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sparkcohort.runtime.group import validation
from sparkcohort.runtime.protocol.consumer_protocol import Subscription, decode_subscription, encode_subscription
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import JoinGroup, Protocol
from sparkcohort.runtime.protocol.partitions import TopicPartition

HELD = frozenset({TopicPartition("t", 0), TopicPartition("t", 3)})
BOOKS = validation.Books({"t", "u"}, {"sticky", "range"}, 7, HELD, 60_000)


def join(said: Subscription | bytes, **others: Any) -> JoinGroup:
    """A join that offers two protocols with this metadata."""
    metadata = said if isinstance(said, bytes) else encode_subscription(said)
    offered = (Protocol("sticky", metadata), Protocol("range", metadata))
    return structs.replace(JoinGroup("m", "i", "c", "h", 10_000, 60_000, "consumer", offered), **others)


def heard(said: Subscription) -> tuple[Subscription, validation.Complaints]:
    """The subscription that the group hears, and what is told."""
    checked, complaints = validation.check_join(join(said), BOOKS)
    assert checked.protocols[0].metadata == checked.protocols[1].metadata
    return decode_subscription(checked.protocols[0].metadata), complaints


def test_what_is_true_goes_through_as_it_is() -> None:
    """The very same request, also with metadata of an older or a later version."""
    true = Subscription(("t", "u"), b"{}", tuple(sorted(HELD)), 7, "a")
    for metadata in (
        encode_subscription(true),
        encode_subscription(true, 0),
        b"\0\x09" + encode_subscription(true)[2:],
    ):
        asked = join(metadata)
        assert validation.check_join(asked, BOOKS) == (asked, {})
    assert validation.check_join(join(true), BOOKS)[0] == join(true)


@pytest.mark.parametrize(
    ("owned", "told"),
    [
        ([("t", -1)], "1 partition that it does not have: t--1"),
        ([("gone", -50)], "1 partition that it does not have: gone--50"),
        ([("t", 1)], "1 partition that it does not have: t-1"),
        ([("t\n", 0)], r"1 partition that it does not have: t?-0"),
        ([("u", n) for n in range(5_000)], "5000 partitions that it does not have: u-0, u-1, u-2 and 4997 more"),
    ],
)
def test_a_claim_beyond_the_books_is_none(owned: list[tuple[str, int]], told: str) -> None:
    """Negative, of a topic that isn't there, of somebody else's: what it has stays claimed."""
    said = Subscription(("t",), owned=(TopicPartition("t", 0), *map(TopicPartition._make, owned)), generation=6)
    found, complaints = heard(said)

    assert found == replace(said, owned=(TopicPartition("t", 0),))
    assert complaints == {"claims": f"it claims {told}"}


@pytest.mark.parametrize("generation", [8, 2**31 - 1, -2, -(2**31)])
def test_a_generation_that_never_was_is_none(generation: int) -> None:
    """Else its claims would rule over everybody's."""
    found, complaints = heard(Subscription(("t",), generation=generation))

    assert found.generation == -1
    assert complaints["generation"] == f"it claims generation {generation}; the group is in generation 7"


def test_what_is_too_long_or_cannot_be_printed_is_dropped() -> None:
    """Rack and user data; topics that aren't there are left out without a word: they may have been a moment ago."""
    said = Subscription(("t", "x" * 30_000, "nowhere"), b"x" * 5_000, rack="r" * 300)
    found, complaints = heard(said)

    assert found == Subscription(("t",))
    assert sorted(complaints) == ["rack", "user data"]
    assert heard(Subscription(rack="a\x1b[2J"))[0].rack is None


def test_what_nobody_asked_for_is_not_kept() -> None:
    """Protocols beyond the group's, one twice, bytes after the end, a reason and a time-out without end."""
    said = encode_subscription(Subscription(("t",)))
    offered = [Protocol(f"p{n}", b"x" * 1_000) for n in range(1_000)]
    offered += [Protocol("range", said + b"x" * 1_000_000), Protocol("range", b"")]
    asked = join(said, protocols=tuple(offered), reason="why\n" * 1_000, rebalance_timeout_ms=2**62)
    checked, complaints = validation.check_join(asked, BOOKS)

    assert checked.protocols == (Protocol("range", said),)
    assert checked.reason == ("why?" * 64)[:255]
    assert checked.rebalance_timeout_ms == 60_000
    assert complaints == {}
    strange = validation.check_join(join(said, protocols=tuple(offered[:9])), BOOKS)[0]
    assert strange.protocols == (Protocol("p0", b""),)  # which the group refuses


@pytest.mark.parametrize("metadata", [b"", b"\xff", b"\0\3\x7f\xff\xff\xff", b"x" * 1_000])
def test_who_cannot_be_read_is_refused(metadata: bytes) -> None:
    """It doesn't speak the group's protocol."""
    with pytest.raises(validation.Refusal, match="not a ConsumerProtocol subscription") as caught:
        validation.check_join(join(metadata), BOOKS)
    assert caught.value.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("field", ["client_id", "client_host", "group_instance_id"])
@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "x" * 256])
def test_a_name_that_is_none_is_refused(field: str, name: str) -> None:
    """It would stand in every log line about the member."""
    with pytest.raises(validation.Refusal, match="more than 255 characters, or one that can't be printed") as caught:
        validation.check_join(join(Subscription(), **{field: name}), BOOKS)
    assert caught.value.error == ErrorCode.INVALID_REQUEST


def info(said: object) -> tuple[validation.MemberInfo, validation.Complaints]:
    """What is made of user data."""
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    return validation.read_member_info(join(Subscription(user_data=data, rack="a")), "m-1")


def test_what_an_agent_says_of_itself_is_known() -> None:
    """All of it, and defaults for what it leaves out."""
    said = {"executor": "7", "host": "node-1", "cores": 4, "pid": 99, "address": "cohort-1"}
    assert info(said) == (validation.MemberInfo("m-1", "7", "node-1", 4, 99, "cohort-1", "a"), {})
    assert info({}) == (validation.MemberInfo("m-1", "?", "h", 1, 0, "c", "a"), {})


@pytest.mark.parametrize("cores", [10**8, 0, -1, 2.5, "4", True, None, [4], float("inf"), 10**400])
def test_cores_that_nobody_has_are_one(cores: object) -> None:
    """For each core a batch may get a slot."""
    found, complaints = info({"cores": cores})
    assert found.cores == 1
    assert complaints["cores"].startswith("its cores is ")
    assert complaints["cores"].endswith(", not a number from 1 to 1024: taken for 1")


@pytest.mark.parametrize("said", [b"[]", b"{", b"[" * 4_000, b"\xff", b'"x"', b"1" * 4_000])
def test_user_data_that_is_no_object_says_nothing(said: bytes) -> None:
    """The member is in the group all the same."""
    assert info(said) == (
        validation.MemberInfo("m-1", "?", "h", 1, 0, "c", "a"),
        {"user data": "what it says of itself (user data) is no JSON object"},
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@given(said=st.dictionaries(st.sampled_from(["executor", "host", "cores", "pid", "address", "x"]), JSON) | st.binary())
def test_whatever_it_says_of_itself_is_within_bounds(said: object) -> None:
    """Any JSON, any bytes."""
    found, complaints = info(said)
    assert 1 <= found.cores <= validation.MOST_CORES
    assert all(validation.log_text(text) == text for text in (found.executor_id, found.host, found.address))
    assert all(len(words) < 200 for words in complaints.values())
