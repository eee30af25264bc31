"""The rules for a partition whose broker is away, or whose log may have lost records: hold it, wait for it, or fail.

A partition is **unreachable** when it has no leader, when its leader does not answer the question for the log's end, or when
no end is known yet.  It is **doubted** when it may have lost records: its log ends before the position, its topic has another
id, or its leader does not answer where an epoch ends.  A doubt ends after the time in which a broker may lag
(``suspected_loss``): either with a loss (``failOnDataLoss``) or with none.

Meanwhile nothing is read of the partition: it stays at its start in every batch, and a new partition enters with a later
batch.  Nothing is lost: the checkpoint has the position.  The other partitions:

* **Processing time**, ``unreachable.partitions=hold``: the others are read for as long as it takes.  With ``wait`` and ``fail``
  nothing is planned while a partition is unreachable.  A doubted partition is not waited for: a later batch reads it.
* **QueryTrigger.Once** reads all there is in one batch, planned when nothing is unreachable and nothing doubted.
* **AvailableNow** reads what there is when it starts.  It waits once, as QueryTrigger.Once does, until it has all ends, at which
  it stops.  From then on an unreachable partition is held only if it has records before its end.  The others are read first;
  when they are at their ends, the query waits for the held ones.
* A wait lasts ``unreachable.timeout.ms``; with ``fail`` only ``FAIL_AFTER_S``, enough to distinguish a broker that is away from a
  slow one.  A wait for doubts alone lasts ``LAG_S`` longer, the time in which they end.  Then the query fails and names the
  partitions and reasons; a restart goes on from the checkpoint.
* **A start** (offsets that brokers must answer) waits ``unreachable.timeout.ms`` in every mode, then fails.
* **A replayed batch** has its end already: it waits as long for doubted partitions, then goes on with what is known.

A look-up that fails with ``LEADER_NOT_AVAILABLE`` does not fail the query: the partition counts as unreachable.  The shell asks
the brokers; time is an argument here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from sparkcohort.runtime.batches.suspected_loss import LAG_S, Mismatches
from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.error_codes import UNREACHABLE
from sparkcohort.runtime.protocol.partitions import TopicPartition

FAIL_AFTER_S: Final = 5.0
"""How long ``unreachable.partitions=fail`` waits before it takes a broker for away and not slow."""
LEADERLESS: Final = "no leader is available"
UNANSWERED: Final = "its leader has not answered yet"
UNKNOWN_START: Final = "the start of its log is unknown"
MOST_NAMED: Final = 10  # partitions that an error names one by one

Offsets: TypeAlias = Mapping[TopicPartition, int]
Reasons: TypeAlias = Mapping[TopicPartition, str]


class QueryTrigger(Enum):
    """Spark's trigger, as far as it matters: how much has to be read before the query may end."""

    PROCESSING_TIME = "nothing: there is a next batch"
    AVAILABLE_NOW = "what there was when the query started"
    ONCE = "all there is, in one batch"

    @property
    def bounded(self) -> bool:
        """Whether the query ends by itself: no later batch reads what it leaves out."""
        return self is not QueryTrigger.PROCESSING_TIME


class Policy(NamedTuple):
    """The options ``unreachable.partitions`` and ``unreachable.timeout.ms``."""

    mode: str  # hold, wait, fail
    timeout_ms: int

    @property
    def batch_timeout_s(self) -> float:
        """The longest wait before a batch."""
        return FAIL_AFTER_S if self.mode == "fail" else self.start_timeout_s

    @property
    def start_timeout_s(self) -> float:
        """The longest wait for a start, or for a batch that is replayed."""
        return self.timeout_ms / 1000


class HoldDecision(Enum):
    """The decision about the next batch."""

    PLAN = "plan what can be read, and end there even when it is nothing"
    PLAN_OTHERS = "plan what can be read; when it is nothing, decide again"
    WAIT = "plan nothing, look again"
    FAIL = "the wait is over: the query fails"


class Situation(NamedTuple):
    """What delays the next batch."""

    unreachable: Collection[TopicPartition] = ()  # those to hold (``held_partitions``)
    doubted: Collection[TopicPartition] = ()
    stops_known: bool = False  # AvailableNow has seen all ends; False under any other trigger
    nothing_else: bool = False  # the batch without the unreachable and doubted partitions is empty
    waited_s: float = 0.0


def decide(policy: Policy, trigger: QueryTrigger, situation: Situation) -> HoldDecision:
    """Whether the next batch is planned now, waited for, or the end of the query."""
    waits_for_brokers = bool(situation.unreachable) and (trigger.bounded or policy.mode != "hold")
    waits_for_doubts = bool(situation.doubted) and trigger.bounded
    if not (waits_for_brokers or waits_for_doubts):
        return HoldDecision.PLAN
    if situation.stops_known and not situation.nothing_else:
        return HoldDecision.PLAN_OTHERS
    # A doubt ends within LAG_S, or never, where no broker answers where the log begins.
    limit_s = policy.batch_timeout_s + (0 if situation.unreachable else LAG_S)
    return HoldDecision.FAIL if situation.waited_s > limit_s else HoldDecision.WAIT


def decide_start(policy: Policy, missing: Collection[TopicPartition] | bool, waited_s: float) -> HoldDecision:
    """Whether a start is known, waited for, or an error; ``missing`` are the offsets without an answer."""
    if not missing:
        return HoldDecision.PLAN
    return HoldDecision.FAIL if waited_s > policy.start_timeout_s else HoldDecision.WAIT


def decide_replay(policy: Policy, doubted: Collection[TopicPartition], waited_s: float) -> HoldDecision:
    """Whether a replayed batch, whose end is fixed, goes on or waits for its doubted partitions."""
    return HoldDecision.WAIT if doubted and waited_s <= policy.start_timeout_s else HoldDecision.PLAN


def unreachable(
    partitions: Iterable[TopicPartition],
    ends: Collection[TopicPartition],
    reasons: Reasons,
    leaderless: Iterable[TopicPartition],
    unanswered: str = UNANSWERED,
) -> dict[TopicPartition, str]:
    """Why each of these partitions is unreachable, if it is.

    ``reasons``: why the last questions for ends had no answer; ``unanswered``: the reason of a partition without end or reason.
    """
    considered = frozenset(partitions)
    unreachable_reasons = {tp: reason for tp, reason in reasons.items() if tp in considered} | dict.fromkeys(
        leaderless, LEADERLESS
    )
    return unreachable_reasons | {
        tp: unanswered for tp in considered if tp not in ends and tp not in unreachable_reasons
    }


def held_partitions(
    unreachable: Iterable[TopicPartition], start: Offsets, stops: Offsets | None
) -> frozenset[TopicPartition]:
    """The unreachable partitions to hold: all, or those with records before ``stops``, the ends of AvailableNow."""
    if stops is None:
        return frozenset(unreachable)
    return frozenset(tp for tp in unreachable if tp in stops and stops[tp] > start.get(tp, -1))


def doubted(
    start: Iterable[TopicPartition],
    mismatches: Mismatches,
    unsure: Collection[TopicPartition],
    reset: Collection[TopicPartition],
) -> frozenset[TopicPartition]:
    """The partitions of ``start`` that may have lost records, without the deleted ones and those that are reset already.

    ``unsure`` are partitions whose leader does not answer where an epoch ends.
    """
    recreated = (
        frozenset(tp for tp in start if tp.topic in mismatches.recreated) if mismatches.recreated else frozenset()
    )
    return (recreated - mismatches.deleted | mismatches.shorter | frozenset(unsure)) - frozenset(reset)


def unknown_ends(partitions: Iterable[TopicPartition], ends: Offsets, unreachable: Reasons) -> list[TopicPartition]:
    """The partitions without a current end; the end of an unreachable one is old."""
    return [tp for tp in partitions if tp in unreachable or tp not in ends]


def up_to(ends: Offsets, stops: Offsets | None) -> Offsets:
    """Where batches may end: AvailableNow stops at its own ends, and reads no newer partition."""
    if stops is None:
        return ends
    return {tp: min(end, stops[tp]) for tp, end in ends.items() if tp in stops}


def may_enter(
    ends: Iterable[TopicPartition],
    start: Collection[TopicPartition],
    unreachable: Collection[TopicPartition],
    doubted: Iterable[TopicPartition],
) -> list[TopicPartition]:
    """The new partitions that may enter: none that is unreachable, none of a topic with a doubted partition."""
    unsure = {tp.topic for tp in doubted}
    return [tp for tp in ends if tp not in start and tp not in unreachable and tp.topic not in unsure]


def is_unreachable(error: CohortError) -> bool:
    """Whether a look-up failed because a broker is away, which may end by itself."""
    return error.error == UNREACHABLE


def failure(policy: Policy, situation: Situation, reasons: Reasons) -> CohortError:
    """The error for ``HoldDecision.FAIL``: the partitions and reasons, the option that set the limit, and what to do."""
    option = "unreachable.partitions=fail" if policy.mode == "fail" else "unreachable.timeout.ms"
    missing = sorted(situation.unreachable or situation.doubted)
    names = ", ".join(f"{tp.topic}-{tp.partition} ({reasons.get(tp, UNKNOWN_START)})" for tp in missing[:MOST_NAMED])
    more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    return CohortError(
        f"{policy.batch_timeout_s:g} s have passed ({option}) and these partitions cannot be reached: {names}{more}. "
        "Their brokers are down or cut off; start the query again when they are back (nothing is lost: the checkpoint has "
        "what was read)",
        UNREACHABLE,
    )
