"""How a driver commits a batch whose tasks have left their transactions open: steps without clock, thread or socket.

A driver that begins *settles* the sink by the same steps: it writes the last decision again, with a ``run`` of its own, after which
no older driver can decide anything; then it ends what they have left open.

1. CLAIM: InitProducerId of the control id, the sink's.  Kafka fences whoever had it before.
2. READ: the sink's last decision.  A batch that is decided goes to 5, and decides nothing.
3. CHECK: which transactions of the sink are open.  A committable that is not, Kafka has ended by its time-out: the batch fails.
4. DECIDE: write the decision in a transaction of the control id.  *The commit point*: a compare-and-set of run, query and batch,
   since a driver that was overtaken since its claim is fenced.
5. COMMIT: end the decision's transactions with a commit.
6. ABORT: end with an abort what CHECK found open and the decision leaves out, so that ``read_committed`` readers go on.

Only what was open before one's own write in 4 is aborted: of these nobody can decide any, since older runs can decide nothing, and the
batch that the own run's were written for is decided.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from sparkcohort.runtime.kafka.decision import Committable, SinkDecision, SinkTransaction

MOST_CLAIMS: Final = 5
"""Claims of one commit: each after the first means that another driver of this sink has claimed it meanwhile."""


class CommitPhase(Enum):
    """What to do next; see the module."""

    CLAIM = "claim the control id"
    READ = "read the last decision"
    CHECK = "list the open transactions"
    DECIDE = "write the decision"
    COMMIT = "commit the decision's transactions"
    ABORT = "abort what is left over"
    DONE = "the batch is committed"
    FAILED = "the batch can't be committed"


class CommitFailure(Enum):
    """Why a batch can't be committed."""

    OTHER_QUERY = "the last decision is another query's"
    OLDER_BATCH = "the last decision is a later batch's"
    TIMED_OUT = "transactions were ended by their time-out before the decision"
    PARTLY_COMMITTED = "transactions were ended by their time-out after the decision"
    OVERTAKEN = "another driver of this sink has begun since, or claims it again and again"


class EndResult(Enum):
    """How Kafka has answered EndTxn."""

    ENDED = "it is ended as was asked, now or before"
    REFUSED = "Kafka has aborted it before, or its producer has begun another one"


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """The commit of one batch, or a start's (``settles``); total: each method is for a phase, and returns the next state."""

    query: str
    batch: int
    committables: tuple[Committable, ...]  # of a start: those of the last decision, from READ on
    run: str
    least_left_s: float = 0.0  # that a committable must have left when it is decided, for COMMIT
    settles: bool = False
    phase: CommitPhase = CommitPhase.CLAIM
    claims: int = 0
    decision: SinkDecision | None = None  # the last one in the topic, as far as is known
    leftovers: frozenset[SinkTransaction] = frozenset()  # open before the own decision, and not in it
    left_s: float | None = None  # of the oldest committable at CHECK; None before it, or where there is none
    failure: CommitFailure | None = None
    lost_committables: tuple[Committable, ...] = ()  # which TIMED_OUT and PARTLY_COMMITTED are about

    def claimed(self) -> BatchCommit:
        """The control id has its next epoch."""
        return replace(self, phase=CommitPhase.READ, claims=self.claims + 1)

    def read(self, last: SinkDecision | None) -> BatchCommit:
        """The last decision, None where the topic has none."""
        state = replace(self, decision=last)
        if self.settles:
            return replace(state, phase=CommitPhase.CHECK, committables=last.committables if last is not None else ())
        if last is None or last.run != self.run:
            return state.failed(CommitFailure.OVERTAKEN)
        if last.query not in ("", self.query):
            return state.failed(CommitFailure.OTHER_QUERY)
        if last.batch > self.batch:
            return state.failed(CommitFailure.OLDER_BATCH)
        if last.batch == self.batch:
            return replace(state, phase=CommitPhase.COMMIT)
        return replace(state, phase=CommitPhase.CHECK)

    def checked(self, open_now: Mapping[SinkTransaction, float]) -> BatchCommit:
        """All open transactions of the sink, and for how many seconds each may stay so."""
        own = {each.transaction: each for each in self.committables}
        late = tuple(each for key, each in own.items() if key not in open_now or open_now[key] < self.least_left_s)
        if late and not self.settles:
            return self.failed(CommitFailure.TIMED_OUT, late)
        left_s = min((open_now[key] for key in own if key in open_now), default=None)
        return replace(self, phase=CommitPhase.DECIDE, leftovers=frozenset(open_now) - frozenset(own), left_s=left_s)

    @property
    def proposal(self) -> SinkDecision:
        """What DECIDE writes."""
        own = SinkDecision(self.query, self.batch, self.committables, self.run)
        return replace(self.decision, run=self.run) if self.settles and self.decision is not None else own

    def decided(self, is_written: bool) -> BatchCommit:
        """The proposal is in the topic, or this driver was fenced."""
        if is_written:
            return replace(self, phase=CommitPhase.COMMIT, decision=self.proposal)
        if self.claims >= MOST_CLAIMS:
            return self.failed(CommitFailure.OVERTAKEN)
        return replace(self, phase=CommitPhase.CLAIM, leftovers=frozenset())

    def committed(self, results: Mapping[SinkTransaction, EndResult]) -> BatchCommit:
        """Each of the decision's transactions was ended with a commit, or is lost."""
        lost_committables = lost_of(self.decision, results)
        if lost_committables:
            return self.failed(CommitFailure.PARTLY_COMMITTED, lost_committables)
        return replace(self, phase=CommitPhase.ABORT if self.leftovers else CommitPhase.DONE)

    def aborted(self) -> BatchCommit:
        """What was left over is ended; one that Kafka refuses to end is ended by its time-out."""
        return replace(self, phase=CommitPhase.DONE)

    def failed(self, failure: CommitFailure, lost_committables: tuple[Committable, ...] = ()) -> BatchCommit:
        """The batch can't be committed."""
        return replace(self, phase=CommitPhase.FAILED, failure=failure, lost_committables=lost_committables)


def lost_of(decision: SinkDecision | None, results: Mapping[SinkTransaction, EndResult]) -> tuple[Committable, ...]:
    """The decision's transactions that Kafka has aborted: their rows are lost."""
    committables: Collection[Committable] = decision.committables if decision is not None else ()
    return tuple(each for each in committables if results.get(each.transaction) is not EndResult.ENDED)


class NameUse(NamedTuple):
    """A transactional id of this process, and the last batch that it was used for; its transaction was open after its last write."""

    name: str
    batch: int


def is_free(use: NameUse, batch: int) -> bool:
    """Whether an id can be used again: not while a decision may name its last transaction, which a new one would make it forget.

    A task of batch n begins when batch n - 1 is decided and its transactions are committed, or will be by whoever finds the
    decision.  So an id rests for one batch.
    """
    return batch >= use.batch + 2
