"""What a member says: what can't be true of its process is dropped and told, what can't be read is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sparkcohort.runtime.group import GroupMember, validation
from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol.consumer_protocol import Subscription, encode_subscription
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import JoinGroup, Protocol

ASSIGNORS = {"sticky", "range"}


def join(said: Subscription | bytes = b"", **others: Any) -> JoinGroup:
    """A join that offers two protocols with this metadata."""
    metadata = said if isinstance(said, bytes) else encode_subscription(said)
    offered = (Protocol("sticky", metadata), Protocol("range", metadata))
    return structs.replace(JoinGroup("m", "i", "c", "h", 10_000, 60_000, "consumer", offered), **others)


def test_what_nobody_asked_for_is_not_kept() -> None:
    """Protocols beyond the group's, one twice, a reason and a time-out without end; all else goes through as it is."""
    true = join(Subscription(("t", "u"), b"{}", generation=7, rack="a"))
    assert validation.check_join(true, ASSIGNORS, 60_000) == true
    said = encode_subscription(Subscription(("t",)))
    offered = (Protocol("p0", b"x"), Protocol("range", said), Protocol("range", b""))
    asked = join(said, protocols=offered, reason="why\n" * 1_000, rebalance_timeout_ms=2**62)
    checked = validation.check_join(asked, ASSIGNORS, 60_000)
    assert (checked.protocols, checked.reason) == ((Protocol("range", said),), ("why?" * 64)[:255])
    assert checked.rebalance_timeout_ms == 60_000
    strange = validation.check_join(join(said, protocols=offered[:1]), ASSIGNORS, 60_000)
    assert strange.protocols == (Protocol("p0", b""),)  # which the group refuses


@pytest.mark.parametrize("metadata", [b"", b"\xff", b"\0\3\x7f\xff\xff\xff"])
def test_who_cannot_be_read_is_refused(metadata: bytes) -> None:
    """It doesn't speak the group's protocol."""
    with pytest.raises(validation.Refusal, match="not a ConsumerProtocol subscription") as caught:
        validation.check_join(join(metadata), ASSIGNORS, 60_000)
    assert caught.value.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("field", "name"), [("client_id", "a\nb"), ("client_host", "\x1b[31m"), ("group_instance_id", "x" * 256)]
)
def test_a_name_that_is_none_is_refused(field: str, name: str) -> None:
    """It would stand in every log line about the member."""
    with pytest.raises(validation.Refusal, match="more than 255 characters, or one that can't be printed") as caught:
        validation.check_join(join(Subscription(), **{field: name}), ASSIGNORS, 60_000)
    assert caught.value.error == ErrorCode.INVALID_REQUEST


def info(said: object) -> tuple[validation.MemberInfo, str]:
    """What is made of user data."""
    data = said if isinstance(said, bytes) else json.dumps(said).encode()
    metadata = encode_subscription(Subscription(user_data=data, rack="a"))
    return validation.read_member_info(GroupMember("m-1", "i", "c", "h", 1, 1, (Protocol("range", metadata),)))


def test_what_an_agent_says_of_itself_is_known() -> None:
    """All of it, and defaults for what it leaves out."""
    said = {"executor": "7", "host": "node-1", "cores": 4, "pid": 99, "address": "cohort-1"}
    assert info(said) == (validation.MemberInfo("m-1", "7", "node-1", 4, 99, "cohort-1", "a"), "")
    assert info({}) == (validation.MemberInfo("m-1", "?", "h", 1, 0, "", "a"), "")


@pytest.mark.parametrize("said", [b"[]", b"{", b"[" * 4_000, b"\xff", {"cores": 10**8}, {"cores": 0}, {"pid": True}])
def test_user_data_that_cannot_be_true_says_nothing(said: object) -> None:
    """The member is in the group all the same; for each core a batch may get a slot."""
    found, complaint = info(said)
    assert found == validation.MemberInfo("m-1", "?", "h", 1, 0, "", "a")
    assert complaint.startswith("its user data can't be true: not a ProcessInfo: ")


JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())


@given(said=st.dictionaries(st.sampled_from(["executor", "host", "cores", "pid", "address", "x"]), JSON) | st.binary())
def test_whatever_it_says_of_itself_is_within_bounds(said: object) -> None:
    """Any JSON, any bytes."""
    found, complaint = info(said)
    assert 1 <= found.cores <= calls.MAX_CORES
    assert all(validation.log_text(text) == text for text in (found.executor_id, found.host, found.address))
    assert len(complaint) < 256
