"""The calls between task, agent and coordinator survive the wire, and nothing else comes through it."""

from __future__ import annotations

import json
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.protocol import calls
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition

R = (Range("t", 0, 5, 9),)
BAD = (calls.MalformedCount("t", "syntax", 2),)
DELIVERED = calls.Delivered("p", "a", R, (1, 10), (3, 30), (40,), timed_out=False, recreated=("t",), bad=BAD)
WANTS = p.Subscription(("t",), (TopicPartition("t", 0),), 3, "r", p.ProcessInfo("1", "h", 2, 7, "a"))
VALUES = [
    p.JoinGroup("", "i", "c", "h", 1, 2, ("range", "x"), WANTS, "new"),
    p.SyncGroup("m", "i", 3, (("m", (TopicPartition("t", 0),)), ("n", ()))),
    p.Heartbeat("m", "i", 3),
    p.LeaveGroup((p.LeavingMember("m", "i", "bye"), p.LeavingMember("", "i"))),
    p.OffsetCommit("m", "i", 3, (p.CommittedPosition("t", 0, 2**62, 2),)),
    p.OffsetFetch((TopicPartition("t", 1),)),
    p.JoinGroupReply(ErrorCode.NONE, 4, "range", "m", "m", (p.JoinedMember("m", "i", WANTS),)),
    p.LeaveGroupReply(ErrorCode.NONE, ((p.LeavingMember("m", "i"), ErrorCode.UNKNOWN_MEMBER_ID),)),
    p.OffsetCommitReply(((TopicPartition("t", 0), ErrorCode.ILLEGAL_GENERATION),), "story"),
    p.OffsetFetchReply(ErrorCode.NONE, ((TopicPartition("t", 0), -1),)),
    calls.Claim("p", 3, "a", "no JVM above", "h", "id", 17),
    calls.ClaimReply(R, (5,), 7, {"t": "id"}, agent=True),
    calls.ClaimReply(error="FENCED_INSTANCE_ID", message="a newer driver runs"),
    DELIVERED,
    calls.ReadRequest(R, {}),
    calls.ReadHead((calls.Stand(0, 7, has_rows=True),), "REQUEST_TIMED_OUT", "late", lost=False),
    calls.AgentRequest(R, (5,), 2, None, 1.5),
    calls.AgentRequest(action="Claim", body="{}"),
    calls.Step(((0, 7),), ((1, "gone"),), rows=True),
    calls.Fetched(
        "m", (calls.WaitedFor("t", 0, 5, 1.5),), (calls.Silent("t", 1, 5, "why"),), (TopicPartition("t", 2),)
    ),
    calls.FetchedReply((TopicPartition("t", 0),), (calls.Barred("t", 1, 9),)),
    calls.PartitionLoads("m", {"t": (calls.ObservedLoad(0, 1.5, 3, 2),)}),
    calls.MalformedRecords(BAD),
    calls.AgentFigures("m", 1 << 27, 12.5, 80, 1024, 20, 1.5e9, 0.25),
    calls.BatchCommitted("id", "bills", (calls.SourceProgress({"t": {"0": 7}}, calls.OffsetsBehindLatest(0, 3, 1.5)),)),
    calls.BatchCommittedReply("id"),
    calls.PushEvent("rejoin", ("t",), "topics changed", 4),
    calls.PushEvent("subscription", ()),
    calls.RebalancesRequest(last=3),
    calls.RebalancesRequest(show=-1),
    calls.StoryRequest("executor-1"),
    calls.Done(),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_call_comes_back_as_it_was(value: p.Message) -> None:
    """Of the same type; with a field more, or another's type, it doesn't."""
    sent = calls.encode(value)
    assert calls.decode(sent, type(value)) == value
    fields = json.loads(sent)
    wrong = [{**fields, "more": 1}, [fields], *({**fields, name: {"x": [1]}} for name in fields if name != "ids")]
    for each in wrong:
        with pytest.raises(calls.CallError, match=f"not a {type(value).__name__}"):
            calls.decode(json.dumps(each).encode(), type(value))


@given(st.sampled_from(VALUES), st.binary() | st.recursive(st.none() | st.integers() | st.floats(), st.lists).map(repr))
def test_anything_is_a_call_or_a_call_error(value: p.Message, said: bytes | str) -> None:
    """There is no third way."""
    try:
        calls.decode(said if isinstance(said, bytes) else said.encode(), type(value))
    except calls.CallError as error:
        assert len(str(error)) < 400


BEAT = b'{"member_id":"m","group_instance_id":"i","generation":'


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (p.Heartbeat, b'{"member_id":"m"}'),
        (p.Heartbeat, BEAT + b"true}"),
        (p.Heartbeat, BEAT + b"1.0}"),
        (p.Heartbeat, BEAT + b"9223372036854775808}"),
        (p.Heartbeat, BEAT + b"9" * 5_000 + b"}"),
        (p.Heartbeat, BEAT.replace(b'"m"', b'"' + b"m" * 0x8000 + b'"') + b"1}"),
        (p.Heartbeat, BEAT.replace(b'"m"', b'"\\ud800"') + b"1}"),
        (p.Heartbeat, b"[" * 100_000),
        (p.Heartbeat, b"\xff\xfe"),
        (p.OffsetFetch, b'{"partitions":[["t",0,1]]}'),
        (p.OffsetCommit, BEAT + b'1,"offsets":[["t",-1,0,1]]}'),
        (p.OffsetCommit, BEAT + b'1,"offsets":[["t",0,-1,1]]}'),
        (p.JoinGroupReply, b'{"error":9999}'),
        (p.JoinGroup, calls.encode(VALUES[0]).replace(b'"cores":2', b'"cores":0')),
        (p.JoinGroup, calls.encode(VALUES[0]).replace(b'"cores":2', b'"cores":100000000')),
        (p.JoinGroup, calls.encode(VALUES[0]).replace(b'"pid":7', b'"pid":true')),
    ],
)
def test_what_is_no_value_of_the_group_is_refused(kind: type[p.Message], data: bytes) -> None:
    """So the core never meets it."""
    with pytest.raises(calls.CallError):
        calls.decode(data, kind)


def test_what_is_no_text_does_not_keep_a_task_from_its_slot() -> None:
    """A host's name or a path may hold any bytes, which Python shows as half surrogate pairs."""
    sent = calls.encode(calls.Claim("p", 0, "a", "no file \udcff", "h\ud800"))
    assert calls.decode(sent, calls.Claim) == calls.Claim("p", 0, "a", "no file ?", "h?")


@pytest.mark.parametrize(
    "changed",
    [
        {"ranges": (Range("t", 0, 9, 5),), "sizes": (0,)},
        {"ranges": (Range("t", 0, -1, 5),)},
        {"agent": (2, 0)},
        {"sizes": ()},
        {"sizes": (1, 2)},
        {"sizes": (2**31 * 4 + 1,)},
    ],
)
def test_a_report_that_contradicts_itself(changed: dict[str, Any]) -> None:
    """Each of its fields is well."""
    calls.check_delivered(DELIVERED)
    fields = {name: getattr(DELIVERED, name) for name in DELIVERED.__struct_fields__}
    report = calls.decode(calls.encode(calls.Delivered(**{**fields, **changed})), calls.Delivered)
    with pytest.raises(calls.CallError):
        calls.check_delivered(report)


@pytest.mark.parametrize("ranges", [(*R, *R), (Range("t", 0, 5, 5),), (Range("t", 0, -1, 5),), (Range("u", 0, 0, 5),)])
def test_the_driver_reads_what_the_query_reads(ranges: tuple[Range, ...]) -> None:
    """One range a partition, of known partitions, with something in it."""
    known = {TopicPartition("t", 0)}
    calls.check_read(calls.ReadRequest(R, {}), known)
    with pytest.raises(calls.CallError):
        calls.check_read(calls.ReadRequest(ranges, {}), known)


def test_what_a_task_has_its_agent_ask_is_called_by_its_own_name() -> None:
    """The agent passes it on under the name of its class, so the name is on the wire."""
    actions = get_args(get_type_hints(calls.AgentRequest)["action"])
    assert set(actions) == {"", calls.Claim.__name__, calls.Delivered.__name__}
