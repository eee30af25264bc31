"""What becomes of a partition whose broker is away, or whose log may have lost something: held, waited for, or failed.

**Unreachable** is a partition without a leader, one whose leader gives no answer when it is asked for the log's end, and
one of which no end is known yet.  **Doubted** is one that may have lost records: its log ends before the position, its topic
has another id, or its leader does not tell its epoch's end.  A doubt is resolved when a broker can't lag any more
(``suspected_loss``), by a loss (``failOnDataLoss``) or by nothing.

While it is so nothing is read of the partition: it stays at its start in every batch, and a new one enters with a later
batch.  Nothing is lost by that, the checkpoint has what was read.  What the others get:

* **Processing time**, ``unreachable.partitions=hold``: the others are read, as far as it takes.  With ``wait`` and ``fail``
  nothing is planned while a partition is unreachable.  Doubted ones are never waited for: the next batch has them.
* **QueryTrigger.Once** promises all there is in one batch: it is planned when nothing is unreachable and nothing doubted.
* **AvailableNow** promises what there is when it starts.  It waits once, as QueryTrigger.Once does, until it has all ends; these
  are where it stops.  From then on only that is held which has something left before its end; the others are read on, and
  when they have nothing left, what is held is waited for.
* A wait lasts ``unreachable.timeout.ms``, with ``fail`` only ``FAIL_AFTER_S``: long enough to tell a broker that is away from
  one that is late.  Where only doubts are waited for it lasts ``LAG_S`` longer, for in that time they become known.  Then
  the query fails, naming the partitions and why; started again, it goes on where it was.
* **A start** (offsets that are asked of the brokers) waits ``unreachable.timeout.ms`` under every mode, and fails after it.
* **A batch that is replayed** has its end already: it waits as long for what is doubted, then goes on with what is known.

A look-up that fails with ``LEADER_NOT_AVAILABLE`` is no error of the query: what was asked is as good as unreachable.
What is asked and when is the shell's; time is an argument.
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
"""How long ``unreachable.partitions=fail`` makes sure that a broker is away and not just late."""
LEADERLESS: Final = "no leader is available"
UNANSWERED: Final = "its leader has not answered yet"
NOT_TOLD: Final = "where its log begins is not told"
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
        """Whether the query ends by itself: what it leaves out nobody reads."""
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
    """What to do about the next batch."""

    PLAN = "plan what can be read, and end there even when it is nothing"
    PLAN_OTHERS = "plan what can be read; when it is nothing, decide again"
    WAIT = "plan nothing, look again"
    FAIL = "the wait is over: the query fails"


class Situation(NamedTuple):
    """What stands in the way of the next batch."""

    unreachable: Collection[TopicPartition] = ()  # unreachable, with something to give (``held``)
    doubted: Collection[TopicPartition] = ()
    stops_known: bool = False  # AvailableNow has seen all ends; False under any other trigger
    nothing_else: bool = False  # planned without what is held and doubted, the batch was empty
    waited_s: float = 0.0


def decide(policy: Policy, trigger: QueryTrigger, situation: Situation) -> HoldDecision:
    """Whether the next batch is planned now, waited for, or the end of the query."""
    waits_for_brokers = bool(situation.unreachable) and (trigger.bounded or policy.mode != "hold")
    waits_for_doubts = bool(situation.doubted) and trigger.bounded
    if not (waits_for_brokers or waits_for_doubts):
        return HoldDecision.PLAN
    if situation.stops_known and not situation.nothing_else:
        return HoldDecision.PLAN_OTHERS
    # What may be lost is known after LAG_S, or never, where nobody tells where its log begins.
    limit_s = policy.batch_timeout_s + (0 if situation.unreachable else LAG_S)
    return HoldDecision.FAIL if situation.waited_s > limit_s else HoldDecision.WAIT


def decide_start(policy: Policy, missing: Collection[TopicPartition] | bool, waited_s: float) -> HoldDecision:
    """Whether a start is known (``missing``: offsets that nobody tells), waited for, or an error."""
    if not missing:
        return HoldDecision.PLAN
    return HoldDecision.FAIL if waited_s > policy.start_timeout_s else HoldDecision.WAIT


def decide_replay(policy: Policy, doubted: Collection[TopicPartition], waited_s: float) -> HoldDecision:
    """Whether a batch that has its end already goes on, or waits for what is doubted of it."""
    return HoldDecision.WAIT if doubted and waited_s <= policy.start_timeout_s else HoldDecision.PLAN


def unreachable(
    partitions: Iterable[TopicPartition],
    ends: Collection[TopicPartition],
    reasons: Reasons,
    leaderless: Iterable[TopicPartition],
    unanswered: str = UNANSWERED,
) -> dict[TopicPartition, str]:
    """Why each of these partitions is unreachable, if it is.

    ``reasons``: what the last questions for ends came to; ``unanswered``: why a partition that has none has no end either.
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
    """The unreachable partitions that have something to give: all, but after AvailableNow has its ends (``stops``)."""
    if stops is None:
        return frozenset(unreachable)
    return frozenset(tp for tp in unreachable if tp in stops and stops[tp] > start.get(tp, -1))


def doubted(
    start: Iterable[TopicPartition],
    mismatches: Mismatches,
    unsure: Collection[TopicPartition],
    reset: Collection[TopicPartition],
) -> frozenset[TopicPartition]:
    """What may be lost of ``start``: all that is said to be, but what is gone for certain and what has a new place to go on.

    ``unsure``: partitions whose leader does not tell where its epoch ends.
    """
    recreated = (
        frozenset(tp for tp in start if tp.topic in mismatches.recreated) if mismatches.recreated else frozenset()
    )
    return (recreated - mismatches.deleted | mismatches.shorter | frozenset(unsure)) - frozenset(reset)


def unknown_ends(partitions: Iterable[TopicPartition], ends: Offsets, unreachable: Reasons) -> list[TopicPartition]:
    """Those whose end isn't known by now: an unreachable one's is old."""
    return [tp for tp in partitions if tp in unreachable or tp not in ends]


def up_to(ends: Offsets, stops: Offsets | None) -> Offsets:
    """Where batches may end: AvailableNow stops at its own ends, and reads no partition that came later."""
    if stops is None:
        return ends
    return {tp: min(end, stops[tp]) for tp, end in ends.items() if tp in stops}


def may_enter(
    ends: Iterable[TopicPartition],
    start: Collection[TopicPartition],
    unreachable: Collection[TopicPartition],
    doubted: Iterable[TopicPartition],
) -> list[TopicPartition]:
    """The new partitions that may enter: none that is unreachable, none of a topic of which something is doubted."""
    unsure = {tp.topic for tp in doubted}
    return [tp for tp in ends if tp not in start and tp not in unreachable and tp.topic not in unsure]


def is_unreachable(error: CohortError) -> bool:
    """Whether a look-up failed since a broker is away, which ends by itself."""
    return error.error == UNREACHABLE


def failure(policy: Policy, situation: Situation, reasons: Reasons) -> CohortError:
    """The error for ``HoldDecision.FAIL``: what was waited for in vain, by which option, and that nothing is lost."""
    option = "unreachable.partitions=fail" if policy.mode == "fail" else "unreachable.timeout.ms"
    missing = sorted(situation.unreachable or situation.doubted)
    names = ", ".join(f"{tp.topic}-{tp.partition} ({reasons.get(tp, NOT_TOLD)})" for tp in missing[:MOST_NAMED])
    more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    return CohortError(
        f"{policy.batch_timeout_s:g} s have passed ({option}) and these partitions cannot be reached: {names}{more}. "
        "Their brokers are down or cut off; start the query again when they are back (nothing is lost: the checkpoint has "
        "what was read)",
        UNREACHABLE,
    )
