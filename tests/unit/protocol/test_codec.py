"""The protocol's values survive the wire, and nothing else comes through it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.codec import MAX_BYTES, WireError, decode, encode
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import TopicPartition

VALUES = [
    p.JoinGroup("", "i", "c", "h", 1, 2, "consumer", (p.Protocol("range", b"\x00\xff"), p.Protocol("x", b"")), "new"),
    p.SyncGroup("m", "i", 3, "consumer", "range", (("m", b"\x01"), ("n", b""))),
    p.Heartbeat("m", "i", 3),
    p.LeaveGroup((p.LeavingMember("m", "i", "bye"), p.LeavingMember("", "i"))),
    p.OffsetCommit("m", "i", 3, (p.CommittedPosition("t", 0, 2**62, 2),)),
    p.OffsetFetch((TopicPartition("t", 1),)),
    p.JoinGroupReply(ErrorCode.NONE, 4, "consumer", "range", "m", "m", (p.JoinedMember("m", "i", b"\x02"),)),
    p.LeaveGroupReply(ErrorCode.NONE, ((p.LeavingMember("m", "i"), ErrorCode.UNKNOWN_MEMBER_ID),)),
    p.OffsetCommitReply(((TopicPartition("t", 0), ErrorCode.ILLEGAL_GENERATION),), "story"),
    p.OffsetFetchReply(ErrorCode.NONE, ((TopicPartition("t", 0), -1),)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_kind_of_value_comes_back_as_it_was(value: object) -> None:
    """Encoding and decoding gives the equal value of the same type."""
    back = decode(encode(value))

    assert value == back
    assert type(value) is type(back)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'["Heartbeat"]',
        b'["Nothing",{}]',
        b'["Heartbeat",{"member_id":"m"}]',
        b'["Heartbeat",{"member_id":"m","group_instance_id":null,"generation":1}]',
        b'["OffsetCommit",{"member_id":"m","group_instance_id":"i","generation":1,"offsets":[["t",-1,0,1]]}]',
        b'["OffsetCommit",{"member_id":"m","group_instance_id":"i","generation":1,"offsets":[["t",0,-1,1]]}]',
        b'["Heartbeat",{"member_id":1,"group_instance_id":"i","generation":1}]',
        b'["Heartbeat",{"member_id":"m","group_instance_id":"i","generation":true}]',
        b'["Heartbeat",{"member_id":"m","group_instance_id":"i","generation":1,"more":1}]',
        b'["OffsetCommit",{"member_id":"m","group_instance_id":"i","generation":1,"offsets":[["t",0]]}]',
        b'["JoinGroupReply",{"error":9999}]',
        b'["Tick",{}]',
        b'["Removed",{"member_id":"m","reason":""}]',
        b'["Protocol",["range",""]]',
        b'["Heartbeat",{"member_id":"m","group_instance_id":"i","generation":1.0}]',
        b'["Heartbeat",{"member_id":"m","group_instance_id":"i","generation":-9223372036854775809}]',
        b'["Heartbeat",{"member_id":"' + b"m" * 0x8000 + b'","group_instance_id":"i","generation":1}]',
        b'["Heartbeat",["m","i",1]]',
        b'["Heartbeat",{"member_id":"m","group_instance_id":"i","generation":1}]]',
        b'["OffsetFetch",{"partitions":[["t",0,1]]}]',
        b'["SyncGroupReply",{"error":0,"assignment":"A"}]',
        b"\xff\xfe",
        b"[" * 100_000,
        b'["Heartbeat",' + b"[" * 100_000,
        b'["Heartbeat",{"member_id":"\\ud800","group_instance_id":"i","generation":1}]',
        b'["Heartbeat",{"member_id":"m","group_instance_id":"i","generation":9223372036854775808}]',
        b'["Heartbeat",{"member_id":"m","group_instance_id":"i","generation":' + b"9" * 5_000 + b"}]",
    ],
)
def test_what_is_no_value_is_refused(data: bytes) -> None:
    """Malformed messages raise WireError and nothing else."""
    with pytest.raises(WireError):
        decode(data)


def test_half_a_surrogate_pair_is_a_question_mark() -> None:
    """As a host's name may have it whose bytes are no UTF-8; the coordinator refuses the rest with a reason."""
    leave = p.LeaveGroup((p.LeavingMember("m", "i", "gone from \udcff"),))
    assert decode(encode(leave)) == p.LeaveGroup((p.LeavingMember("m", "i", "gone from ?"),))


def test_a_message_over_the_limit_is_not_even_parsed() -> None:
    """A flood stops at the size."""
    with pytest.raises(WireError, match="over the limit"):
        decode(b" " * (MAX_BYTES + 1))


@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(
        lambda value: json.dumps(["OffsetCommit", value]).encode()
    )
)
def test_hostile_bytes_raise_only_wire_errors(data: bytes) -> None:
    """Whatever arrives, the only exception is WireError."""
    try:
        decode(data)
    except WireError:
        return
    assert encode(decode(data))
