"""The calls between task, agent and coordinator that are not Kafka's: requests and replies as typed values.

``encode`` and ``decode`` are for the group's messages, too.  The bytes are JSON of the fields.  ``decode`` refuses missing and
surplus fields, wrong types and values out of bounds (``wire_types``): they never reach the core.
``check_delivered`` and ``check_read`` refuse what only several fields together show, as a report with more records than
offsets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Meta, field

from sparkcohort.runtime.protocol.messages import Message, Reply, Request
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.protocol.wire_types import Int64, Natural, String, to_json

MAX_BYTES: Final = 16 * 1024 * 1024
"""The largest request read, in bytes: a commit of a hundred thousand partitions fits, a flood does not."""
MAX_COUNT: Final = 10**15
"""Records or bytes that one task can have read: a greater number is an error, and would spoil the totals of the run."""
MAX_RECORD_BYTES: Final = 2**31
"""Bytes of an offset: Kafka's sizes of messages have 32 bits."""
MAX_WAITED_MS: Final = 1e9
MAX_RANGES: Final = 10_000
"""Ranges that the driver reads for a task in one call."""
MAX_MALFORMED_COUNTS: Final = 1_000
"""Topics and reasons in one report of bad records."""
MAX_WORDS: Final = 300
"""Characters of a text that a task or an agent writes."""
MAX_FETCHED_RECORDS: Final = 100_000
"""Records in one report: two for each of the partitions that one member may own."""
MAX_SECONDS: Final = 1e11
MAX_SOURCES: Final = 1_000
"""Sources of one streaming query."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Rate: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_COUNT)]
Offset: TypeAlias = Natural
Size: TypeAlias = Natural
Milliseconds: TypeAlias = Annotated[float, Meta(ge=0, lt=MAX_WAITED_MS)]
TopicIds: TypeAlias = dict[String, String]
"""Kafka's topic ids, by topic."""
QueryId: TypeAlias = Annotated[str, Meta(max_length=64)]
"""Spark's id of a streaming query, the same over restarts; empty where it is unknown."""


class CallError(ValueError):
    """Bytes that are no call, or a call whose fields contradict each other."""


class Call(Message, frozen=True):
    """A request or a reply that is not Kafka's."""


M = TypeVar("M", bound=Message)


# --- a task's ----------------------------------------------------------------------------------------


class Claim(Call, frozen=True):
    """A task asks for its slot.

    ``batch`` is the number of the batch of ``query``, -1 where it is unknown.  ``no_agent_reason`` says why the executor, on
    ``host``, can have no agent.
    """

    plan: String
    index: Int64
    address: String  # of the agent of its executor
    no_agent_reason: String = field(default="", name="alone")
    host: String = ""
    query: QueryId = ""
    batch: Int64 = -1


class ClaimReply(Call, frozen=True):
    """The slot, or ``error``, one of Kafka's names, with ``message``.

    ``planned_starts`` are, for each range, where the plan begins to read its partition; ``agent`` says that its agent has the
    ranges; ``last`` that the query ends with this batch, so that no agent is to be started for what comes next.
    """

    ranges: tuple[Range, ...] = ()
    planned_starts: tuple[Offset, ...] = ()
    sequence: Int64 = 0
    ids: TopicIds = field(default_factory=dict)
    agent: bool = False
    last: bool = False
    error: String = ""
    message: str = ""


class MalformedCount(NamedTuple):
    """The number of records of a topic that could not be decoded for one reason."""

    topic: String
    reason: String
    records: Count


Bad: TypeAlias = Annotated[tuple[MalformedCount, ...], Meta(max_length=MAX_MALFORMED_COUNTS)]


class Delivered(Call, frozen=True):
    """A task reports what it has read: (records, bytes) by path, and bytes by range.

    ``recreated`` are topics that were deleted and created again meanwhile.  ``bad`` counts the records that the task itself
    could not decode.
    """

    plan: String
    address: String
    ranges: tuple[Range, ...]
    agent: tuple[Count, Count]
    direct: tuple[Count, Count]
    sizes: tuple[Size, ...]
    timed_out: bool
    recreated: tuple[String, ...] = field(default=(), name="anew")
    bad: Bad = ()


class ReadRequest(Call, frozen=True):
    """A task asks the driver to read ranges; the answer begins with ``ReadHead``."""

    ranges: tuple[Range, ...]
    ids: TopicIds


class Stand(NamedTuple):
    """How far a range was read: its place in the request, the next offset, and whether a batch of rows comes along."""

    place: Int64
    position: Int64
    has_rows: bool


class ReadHead(Call, frozen=True):
    """What stands before the rows: how far ranges were read, and what ended it."""

    pieces: tuple[Stand, ...]
    error: String = ""
    message: str = ""
    lost: bool = False


class AgentRequest(Call, frozen=True, omit_defaults=True):
    """A task's request to its agent: ranges to serve, or a call to pass on to the coordinator.

    ``direct``: the ranges are read from Kafka now, of a partition one at most; ``planned_starts`` and ``plan_seq`` don't count.
    """

    ranges: tuple[Range, ...] = ()
    planned_starts: tuple[Offset, ...] = ()
    plan_seq: Offset = 0
    ids: TopicIds | None = None
    patience_s: Annotated[float, Meta(ge=0)] | None = None
    action: Literal["", "Claim", "Delivered"] = ""
    body: str = ""  # of the action: a call as ``encode`` writes it
    reply: bool = True
    token: str = ""
    direct: bool = False


class Step(Call, frozen=True):
    """One step of an agent's answer: positions and misses, each with the index of its range; ``rows``: rows follow.

    ``missed`` has the reasons.  ``sizes`` are the bytes of the rows up to each position.
    """

    positions: tuple[tuple[Int64, Int64], ...]
    missed: tuple[tuple[Int64, str], ...]
    rows: bool
    sizes: tuple[Int64, ...] = ()


class DirectEnd(Call, frozen=True):
    """How an agent's direct read ended: what its task reports of it (``Delivered``)."""

    recreated: tuple[String, ...] = field(default=(), name="anew")
    bad: Bad = ()


# --- an agent's --------------------------------------------------------------------------------------


class WaitedFor(NamedTuple):
    """The fetch position of a partition, and how long tasks have waited for it since the last report."""

    topic: String
    partition: Int64
    position: Offset
    waited_ms: Milliseconds


class Silent(NamedTuple):
    """A partition whose leader doesn't answer: the fetch position, and the reason in words."""

    topic: String
    partition: Int64
    position: Int64
    reason: String


class Barred(NamedTuple):
    """A partition that a member can't fetch, and the offset from which it is to try its leader."""

    topic: String
    partition: Int64
    position: Int64


class Fetched(Call, frozen=True):
    """A member reports waits of tasks, partitions whose leaders are silent, and the tried partitions whose leaders answered."""

    member: String
    fetched: tuple[WaitedFor, ...]
    silent: tuple[Silent, ...] = ()
    reached: tuple[TopicPartition, ...] | None = None


class FetchedReply(Call, frozen=True):
    """The partitions that the member is to go on reporting, and those whose leaders it is to try."""

    late: tuple[TopicPartition, ...]
    barred: tuple[Barred, ...] = ()


class MalformedRecords(Call, frozen=True):
    """A member reports the records that it could not decode since its last report."""

    bad: Bad


class FetchedRecord(NamedTuple):
    """The first visible record at or after a position of a partition, as its owner has fetched it."""

    topic: String
    partition: Int64
    position: Offset
    offset: Offset
    timestamp_ms: Int64


class RecordTimestamps(Call, frozen=True):
    """A member reports timestamps of records that its query has not committed yet."""

    member: String
    records: Annotated[tuple[FetchedRecord, ...], Meta(max_length=MAX_FETCHED_RECORDS)] = field(name="seen")


class ObservedLoad(NamedTuple):
    """The load of a partition: its number, records and bytes per second, records that wait."""

    partition: Int64
    records: Rate
    bytes: Rate
    backlog: Count


class PartitionLoads(Call, frozen=True):
    """A member reports what it observes of its partitions, by topic (see ``load_report``)."""

    member: String
    loads: dict[String, tuple[ObservedLoad, ...]]


class AgentFigures(Call, frozen=True):
    """A member reports its process: bytes, seconds of CPU, descriptors, threads, and the time of its start (since 1970).

    ``throttled_s`` is how long brokers have throttled its fetches; None where its client doesn't report that.
    """

    member: String
    resident_bytes: Size
    cpu_seconds: Annotated[float, Meta(ge=0, lt=MAX_SECONDS)]
    open_fds: Count
    max_fds: Annotated[int, Meta(ge=-1, le=2**63 - 1)]
    threads: Count
    started_at: Annotated[float, Meta(ge=0, lt=MAX_SECONDS)]
    throttled_s: Annotated[float, Meta(ge=0, lt=MAX_SECONDS)] | None = None


class OffsetsBehindLatest(NamedTuple):
    """How far a batch is behind the ends of the logs, over all partitions (Spark: ``KafkaMicroBatchStream.metrics``)."""

    min: Int64
    max: Int64
    avg: float


class SourceProgress(NamedTuple):
    """One source of a progress event: the batch's end, as the source gave it to Spark, and how far that is behind."""

    end: dict[String, dict[String, Offset]]
    offsets_behind: OffsetsBehindLatest | None


class BatchCommitted(Call, frozen=True):
    """A listener reports that a batch of ``query``, called ``name``, is in Spark's commit log, with all its sources."""

    query: QueryId
    name: String
    sources: Annotated[tuple[SourceProgress, ...], Meta(max_length=MAX_SOURCES)]


class BatchCommittedReply(Call, frozen=True):
    """The query that the run serves, "" before one of its tasks has named it."""

    query: QueryId = ""


class PushEvent(Call, frozen=True, omit_defaults=True):
    """An event that the coordinator pushes to an agent.

    ``subscription`` has the query's topics, ``rejoin`` the reason of a rebalance.  ``stop`` ends the agent's membership;
    after ``restart`` the query may be started again, and the agent waits for that.
    """

    event: String  # subscription, rejoin, restart or stop
    topics: tuple[String, ...]
    reason: str = ""
    generation: Int64 = -1


# --- the command line's ------------------------------------------------------------------------------


class RebalancesRequest(Call, frozen=True, omit_defaults=True):
    """The ``last`` rebalances, or the one of generation ``show`` (-1: the latest) with its assignments."""

    last: Int64 | None = None
    show: Int64 | None = None


class StoryRequest(Call, frozen=True):
    """A member's timeline, by its member id or client id."""

    member: String


class Done(Call, frozen=True):
    """The answer to a report."""


def encode(call: Message) -> bytes:
    """The call as bytes; half of a surrogate pair, which a path or a host's name may have, becomes a question mark."""
    return to_json(call)


def decode(data: bytes, kind: type[M]) -> M:
    """The call of this kind in bytes that ``encode`` made.  Raises CallError for all other bytes."""
    try:
        call: M = _DECODERS[kind].decode(data)
    except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors, as is text that is not UTF-8
        raise CallError(f"not a {kind.__name__}: {str(error)[:MAX_WORDS]}") from None
    return call


def _kinds(kind: type[Call]) -> Iterator[type[Call]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _kinds(subclass)


_DECODERS: Final[Mapping[type[Message], msgspec.json.Decoder[Any]]] = {
    kind: msgspec.json.Decoder(kind) for kind in (*get_args(Request), *get_args(Reply), *_kinds(Call))
}
"""Made at import: see ``wire_types``."""


def check_delivered(report: Delivered) -> None:
    """Raises CallError for a report with impossible numbers; none of them is counted."""
    for part in report.ranges:
        if not 0 <= part.start <= part.end:
            raise CallError(f"offsets {part.start} to {part.end} of {part.topic}-{part.partition}"[:MAX_WORDS])
    records, offsets = report.agent[0] + report.direct[0], sum(part.end - part.start for part in report.ranges)
    if records > offsets:
        raise CallError(f"{records} records of {offsets} offsets")
    if len(report.sizes) != len(report.ranges) or any(
        size > MAX_RECORD_BYTES * (part.end - part.start)
        for size, part in zip(report.sizes, report.ranges, strict=True)
    ):
        raise CallError(f"{len(report.ranges)} ranges, and sizes {report.sizes!r:.100}")


def check_read(request: ReadRequest, partitions: Collection[TopicPartition]) -> None:
    """Raises CallError for ranges that are empty, of partitions that the query doesn't read, or several of one partition."""
    if len(request.ranges) > MAX_RANGES or len({part.tp for part in request.ranges}) != len(request.ranges):
        raise CallError(f"{len(request.ranges)} ranges, more than {MAX_RANGES} or several of one partition")
    for part in request.ranges:
        if not 0 <= part.start < part.end or part.tp not in partitions:
            raise CallError(f"{part} is nothing that this query reads"[:MAX_WORDS])
