"""The document of a run: what the page shows, ``describe()`` returns and ``cohort describe --whole`` prints.

These keys stay as they are; the status has others, which may change.  Times are the driver's, in seconds since 1970.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypedDict

import msgspec


class Missing(TypedDict):
    """A member whose answer a rebalance waits for."""

    member_id: str
    client_id: str | None


class UnderWay(TypedDict):
    """The rebalance that is running: it waits for a ``join`` or a ``sync``."""

    reason: str
    age_ms: int
    waits_for: str
    missing: list[Missing]


class MemberRow(TypedDict):
    """One executor; ``owned`` are its (topic, partition) pairs, ``target`` what it is to own."""

    member_id: str
    client_id: str
    executor: str
    host: str
    cores: int
    owned: list[tuple[str, int]]
    target: list[tuple[str, int]]
    heartbeat_age_ms: int


class OpenTransactionRow(TypedDict):
    """What holds a partition up under read_committed."""

    records: int
    seconds: float


class PartitionRow(TypedDict):
    """One partition; null: not known.  Without a ``member_id`` tasks read it directly.  ``unreachable``, ``late``: why."""

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    lag_seconds: float | None
    member_id: str | None
    executor: str | None
    unreachable: str | None
    late: str | None
    open_transaction: OpenTransactionRow | None


CutOffRow = TypedDict(  # noqa: UP013  keys that are no names
    "CutOffRow", {"member_id": str, "topic": str, "partition": int, "why": str, "age_ms": int}
)
"""A partition that a member can't fetch, why, and for how long."""


Pairs: TypeAlias = list[tuple[str, int]]
RebalanceRow = TypedDict(  # noqa: UP013  keys that are no names
    "RebalanceRow",
    {
        "generation": int,
        "at": float,
        "cause": str,
        "duration_ms": int,
        "result": str,
        "moved": Pairs,
        "revoked": Pairs,
        "kept": int,
        "before": dict[str, Pairs],
        "after": dict[str, Pairs],
    },
)
"""One rebalance: when it ended, why it was (in people's names), which partitions moved, how many stayed.

The last eight have who owned what ``before`` and ``after``, by member id.
"""


class BatchRow(TypedDict):
    """The batch in flight; ``number`` is Spark's, once a task has told it."""

    number: int | None
    age_ms: int
    ranges_delivered: int
    ranges_owed: int
    may_be_over: bool
    waits_for: str


class Batches(TypedDict):
    """Of the batches: the one in flight, null where there is none."""

    in_flight: BatchRow | None


class WriteRow(TypedDict):
    """What Kafka has acknowledged of one topic; ``bytes`` are those of the record batches as they were sent."""

    rows: int
    bytes: int
    batches: int
    retries: int


class WriteTimes(TypedDict):
    """For how long tasks waited for brokers, of the time that they took; both summed over tasks."""

    waited_s: float
    tasks_s: float


class SinkCommits(TypedDict):
    """The transactions of an exactly-once sink, and the time of their commits; ``open_ratio``: of the last batch's oldest.

    It is how long that was open at its commit, as a part of its time-out.
    """

    committed: int
    aborted: int
    commit_s: float
    open_ratio: float


class Writes(WriteTimes):
    """What the query has written by Cohort since its JVM began, by topic, and the times of its ``last`` batch."""

    topics: dict[str, WriteRow]
    failed_batches: int
    last: WriteTimes
    commits: SinkCommits


class Flow(TypedDict):
    """Records a second, in and out, and samples of ten minutes: [time, in, out, records behind, seconds behind]."""

    samples: list[tuple[float, float, float, int, float | None]]


class ProblemRow(TypedDict):
    """One thing that is wrong: since when, what it means and what to do, in the runbook's words."""

    alert: str
    severity: str
    text: str
    began_at: float
    meaning: str
    do: str
    link: str


class Document(TypedDict):
    """A run as it is ``now``.  ``state`` is Kafka's name of the group's state."""

    now: float
    group: str
    instance_id: str
    state: str
    state_age_ms: int
    generation: int
    protocol: str
    rebalance: UnderWay | None
    members: list[MemberRow]
    partitions: list[PartitionRow]
    cut_off: list[CutOffRow]
    rebalances: list[RebalanceRow]
    batches: Batches
    flow: Flow
    problems: list[ProblemRow]
    query: dict[str, Any] | None
    writes: Writes | None


def schema() -> dict[str, Any]:
    """The document's JSON Schema."""
    return msgspec.json.schema(Document)
