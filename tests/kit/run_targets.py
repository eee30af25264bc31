"""What a run's own processes, its checkpoint and its registry say and is read in Python, as targets of ``targets``."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from sparkcohort.cli.checkpoint import logs
from sparkcohort.runtime import group as groups
from sparkcohort.runtime.group import journal, validation
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.kafka.cluster_messages import assigned_partitions
from sparkcohort.runtime.kafka.decision import (
    Committable,
    MalformedDecision,
    SinkDecision,
    SinkTransaction,
    WrittenRange,
    decode_decision,
    encode_decision,
    joined_decision,
)
from sparkcohort.runtime.kafka.produce_messages import ProducerId
from sparkcohort.runtime.kafka.transaction_messages import EndQuestion
from sparkcohort.runtime.protocol import calls, offsets_json
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, MalformedOffsets
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent import task_requests
from sparkcohort.runtime.shell.coordinator import group_journal
from sparkcohort.runtime.shell.rpc.tls import Credentials, RunAuthority
from sparkcohort.runtime.values import avro_schema, protobuf_descriptor
from tests.kit.group_world import SESSION_MS, World
from tests.kit.protobuf_fuzz import everything
from tests.kit.targets import Target

T0, T1 = TopicPartition("t", 0), TopicPartition("ü", 1)
RANGE = Range("t", 0, 5, 9)

# --- Kafka's protocol for members -----------------------------------------------------------------

SUBSCRIBED = p.Subscription(("t", "ü"), (T0, T1), 7, "rack", p.ProcessInfo("1", "h", 2, 7, "a"))
JOIN = p.JoinGroup("", "i", "c", "h", 1, 2, ("range",), SUBSCRIBED, "new")


def joins(data: bytes) -> None:
    """What a member may say of itself comes as far as its bounds let it."""
    with suppress(calls.CallError, validation.Refusal):
        join = validation.check_join(calls.decode(data, p.JoinGroup), {"range"}, 60_000)
        info = validation.member_info(join)
        assert all(words.isprintable() for words in (info.executor_id, info.host, info.address, info.rack or ""))


def assignments(data: bytes) -> None:
    """Of another's assignment in Kafka's group all that can be read, or nothing."""
    assert all(tp.topic is not None for tp in assigned_partitions(data))


# --- the run's port -------------------------------------------------------------------------------

MESSAGES = (
    JOIN,
    p.SyncGroup("m", "i", 3, (("m", (T0, T1)),)),
    p.LeaveGroup((p.LeavingMember("m", "i", "bye"),)),
    p.OffsetCommit("m", "i", 3, (p.CommittedPosition("t", 0, 2**62, 2),)),
    p.OffsetFetch((T0,)),
)
CALLS = sorted(calls._DECODERS, key=lambda kind: kind.__name__)
SAID: tuple[p.Message, ...] = (
    *MESSAGES,
    calls.Claim("p", 3, "a", "no JVM above", "h", "id"),
    calls.ClaimReply((RANGE,), (5,), 7, {"t": "id"}, agent=True),
    calls.Delivered(
        "p", "a", (RANGE,), (1, 10), (3, 30), (40,), timed_out=False, bad=(calls.MalformedCount("t", "x", 2),)
    ),
    calls.ReadRequest((RANGE,), {}),
    calls.Step(((0, 7),), ((1, "gone"),), rows=True),
    calls.Fetched("m", (calls.WaitedFor("t", 0, 5, 1.5),), (calls.Silent("t", 1, 5, "why"),), (T0,)),
    calls.PartitionLoads("m", {"t": (calls.ObservedLoad(0, 1.5, 3, 2),)}),
    calls.BatchCommitted("id", "b", (calls.SourceProgress({"t": {"0": 7}}, calls.OffsetsBehindLatest(0, 3, 1.5)),)),
    calls.PushEvent("rejoin", ("t",), "topics changed", 4),
)


def run_calls(data: bytes) -> None:
    """The first byte is the kind: a call, which is written and read as it was, or CallError."""
    if not data:
        return
    kind = CALLS[data[0] % len(CALLS)]
    with suppress(calls.CallError):
        found = calls.decode(data[1:], kind)
        assert calls.decode(calls.encode(found), kind) == found
        if isinstance(found, calls.Delivered):
            calls.check_delivered(found)
        if isinstance(found, calls.ReadRequest):
            calls.check_read(found, {T0})


# --- the local sockets ----------------------------------------------------------------------------

TOKEN = "token"


def task_request(data: bytes) -> None:
    """A request, or InvalidRequest in a line."""
    with suppress(task_requests.InvalidRequest):
        task_requests.parse(data)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        try:
            while task_requests.read_request(ours, TOKEN) is not None:
                continue
        except task_requests.InvalidRequest as error:
            assert str(error).isprintable() and len(str(error)) < 500


# --- the sink's topic ------------------------------------------------------------------------------

DECISION = SinkDecision(
    "q", 3, (Committable(SinkTransaction("s/ü", ProducerId(2**62, 32_767)), (WrittenRange("t", 0, 5, 6, 2),)),), "run"
)


def decisions(data: bytes) -> None:
    """A decision, which is written and read as it was, and whose transactions can be ended and looked for; or MalformedDecision."""
    try:
        found = decode_decision(data)
    except MalformedDecision as error:
        assert str(error).isprintable() and len(str(error)) < 80
        return
    assert decode_decision(encode_decision(found)) == joined_decision([data]) == found
    for committable in found.committables:
        EndQuestion(committable.transaction, commit=True).body()
        for written in committable.ranges:
            assert str(TopicPartition(written.topic, written.partition))
            assert max(map(abs, written[1:])) <= 2**63


# --- checkpoints and options ----------------------------------------------------------------------

OFFSETS = '{"t":{"0":7,"1":9},"t@id":{},"ü":{"0":-1}}'


def offsets(data: bytes) -> None:
    """Offsets by partition, or MalformedOffsets."""
    text = data.decode(errors="replace")
    with suppress(MalformedOffsets):
        value = offsets_json.load(text, "here")
        offsets_json.ids_in(value)
        offsets_json.read(value, "here", EARLIEST)


def checkpoints(data: bytes) -> None:
    """The files of a checkpoint: entries, or BrokenLog that names the file."""
    text = data.decode(errors="replace")
    readers: tuple[Callable[[str, str], object], ...] = (logs.read_commit, logs.query_id)
    for read in readers:
        with suppress(logs.BrokenLog):
            read(text, "file")
    with suppress(logs.BrokenLog):
        entry = logs.read_offsets(text, "offsets/3")
        for line in entry.sources.values():
            logs.source_of(line, "offsets/3")


# --- the group's journal --------------------------------------------------------------------------

IDENTITY = group_journal.RunIdentity("7", 4711, RunAuthority(b"c", b"k", Credentials(b"a", b"c", b"k", TOKEN)))
JOURNAL = group_journal._Head(group_journal.FORMAT, group_journal._sealed("[]", TOKEN), IDENTITY)
HEAD = msgspec.msgpack.encode(JOURNAL)
OPENING = journal.group_frame(groups.new_group(groups.GroupConfig("billing")))[4:]
APART = b"\xc1"
"""Between the bodies of frames: no value of msgpack has such a byte but in a string."""


def journals(data: bytes) -> None:
    """A group that can be written again and taken over, or one of two errors that quote nothing.

    The first byte tells what comes: a file, bodies that are framed here (else a byte more is a frame less), or those of steps alone.
    """
    how, file = data[:1], data[1:]
    if how != b"\0":
        bodies = [*((HEAD, OPENING) if how == b"2" else ()), *file.split(APART)]
        file = b"".join(map(journal.frame_body, bodies))
    alive = group_journal._ALIVE.pack(time.monotonic_ns())
    try:
        found = group_journal._predecessor(alive + file, "[]", 60_000)
    except (group_journal.UnusableJournal, journal.MalformedJournal) as error:
        assert str(error).isprintable() and len(str(error)) < 80
        return
    assert 0 < found.identity.port < 1 << 16
    assert journal.restore_group(journal.group_frame(found.group)) == found.group
    groups.step(found.group, p.Resume(7, "salt"), 0)


def _journals() -> Iterator[bytes]:
    """A group whose members come, come back and die: all of its steps, one of each kind, and a file of what came of it."""
    world = World({"t": 2})
    world.start("driver", ())
    world.start("a", ("t",), "static")
    world.drain()
    world.commit(world.node("a"), T0, 17)
    world.drain()
    world.kill(world.node("a"))
    for name, instance in (("a", "static"), ("b", "b")):
        world.start(name, ("t",), instance)
        world.drain()
    world.kill(world.node("b"))
    world.advance(2 * SESSION_MS)
    steps = world.journal
    assert world.first == journal.restore_group(journal.frame_body(OPENING))
    yield b"1" + HEAD + APART + OPENING
    yield b"2" + APART.join(journal.frame((step,))[4:] for step in steps)
    yield from (b"2" + journal.frame((step,))[4:] for step in {type(step): step for step in steps}.values())
    file = journal.frame_body(HEAD) + journal.group_frame(world.group) + journal.frame((r.OffsetsCommitted(()),))
    yield from (b"\0" + file, b"\0" + file[:-1])


# --- schemas --------------------------------------------------------------------------------------

AVRO = (
    '{"type":"record","name":"R","namespace":"n","aliases":["S"],"fields":[{"name":"a","type":["null","long"],"default":null},'
    '{"name":"e","type":{"type":"enum","name":"E","symbols":["A"],"default":"A"}},{"name":"m","type":{"type":"map","values":"R"}},'
    '{"name":"f","type":{"type":"fixed","name":"F","size":4,"logicalType":"decimal","precision":9,"scale":2}},'
    '{"name":"l","type":{"type":"array","items":{"type":"long","logicalType":"timestamp-millis"}}}]}'
)


def avro(data: bytes) -> None:
    """A schema, or AvroSchemaError."""
    with suppress(avro_schema.AvroSchemaError):
        avro_schema.parse_schema(data.decode(errors="replace"))


def protobuf(data: bytes) -> None:
    """A descriptor, or DescriptorError."""
    with suppress(protobuf_descriptor.DescriptorError):
        protobuf_descriptor.parse_message(data, "p.M")


def _calls() -> list[bytes]:
    return [bytes([CALLS.index(type(each))]) + calls.encode(each) for each in SAID]


def _requests() -> list[bytes]:
    asked = (calls.AgentRequest((RANGE,), (5,), 2, {"t": "id"}, 1.5), calls.AgentRequest(action="Claim", body="{}"))
    sent = [task_requests.encode_request(each, TOKEN) for each in asked]
    return [*sent, sent[0] + sent[1], *(each[4:] for each in sent)]


KEYS = (
    b'"ranges"',
    b'"planned_starts"',
    b'["t",0,5,9]',
    b'"sizes"',
    b'"positions"',
    b'"missed"',
    b"[0,7]",
    b'"rows":true',
)

TARGETS = (
    Target("subscription", joins, lambda: [calls.encode(JOIN)], (b'"owned"', b'"process"', b'"cores"')),
    Target("assignment", assignments, lambda: [bytes.fromhex("0003 00000001 0001 74 00000001 00000000 ffffffff")]),
    Target("calls", run_calls, _calls, KEYS),
    Target("task_request", task_request, _requests, (*KEYS, b'{"token": "token"')),
    Target("offsets", offsets, lambda: [OFFSETS.encode()]),
    Target("decision", decisions, lambda: [encode_decision(DECISION)], (b'"transactions"', b'"format"', b'"batch"')),
    Target("checkpoint", checkpoints, lambda: [f"v1\n{{}}\n{OFFSETS}\n-\nx".encode(), b"v1\n{}", b'{"id":"x"}']),
    Target("journal", journals, _journals, tuple(kind.__name__.encode() for kind in r.GroupRecord.__subclasses__())),
    Target(
        "avro_schema",
        avro,
        lambda: [AVRO.encode()],
        (b'"record"', b'"enum"', b'"decimal"', b'"uuid"', b'"duration"', b'"items"', b'"R"'),
    ),
    Target("descriptors", protobuf, lambda: [everything("proto2"), everything("proto3")]),
)
