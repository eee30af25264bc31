"""The values of the driver's membership in the real Kafka group: itself, what happens to it, what it wants done.

``membership.step`` makes a state of a state and an event.  What is fetched, committed and subscribed to is the shell's to
carry out; each call of the client has a number, and a result under another number than is waited for is void.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from msgspec import Struct, field

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.run_epoch import CommitMetadata, RunEpoch
from sparkcohort.runtime.protocol.partitions import TopicPartition

LOGIN_REFUSED_MS = 60_000
LOGIN_REFUSED_GAP_MS = 45_000  # without a refusal for so long, the next one is another matter


class Committed(NamedTuple):
    """A partition's committed offset (None: there is none), its metadata text, and its leader epoch (-1: none, KIP-320)."""

    offset: int | None
    metadata: str
    epoch: int = -1


class OffsetToCommit(NamedTuple):
    """One partition of an OffsetCommit."""

    partition: TopicPartition
    offset: int
    metadata: str
    epoch: int


class MembershipState(StrEnum):
    """Where the membership stands."""

    STANDALONE = "standalone"  # not asked to join yet: reads, and commits as a client without membership while the group is EMPTY
    JOINING = "joining"
    MEMBER = "member"  # assigned, and verified after its own join that no newer run is there
    WATCHING = "watching"  # fenced (KIP-345); is the other one newer?
    ENDED = "ended"  # failed for good, or closed


class Phase(StrEnum):
    """What a request waits for."""

    FETCH = "the committed offsets that were asked for"
    RESERVE = "the metadata that the next run epoch is computed from"
    PREPARE = "the committed offsets below which nothing is committed"
    COMMIT = "the commit"


class LoginRefusals(Struct, frozen=True):
    """Whether logins that are refused in the middle of a run are the user's mistake, and end the query.

    A password that is changed, or a broker whose store of users lags, is right again after a moment, and connections that
    there are go on meanwhile; a query that ends doesn't.  librdkafka tells of the same refusal twice a minute at least.
    """

    first_ms: int | None = None  # of those that follow each other
    last_ms: int | None = None  # never before first_ms; None as long as first_ms is

    def add_refusal(self, now_ms: int) -> LoginRefusals:
        """The refusals with another one at ``now_ms``."""
        if self.first_ms is None or self.last_ms is None or now_ms - self.last_ms > LOGIN_REFUSED_GAP_MS:
            return LoginRefusals(now_ms, now_ms)
        return LoginRefusals(self.first_ms, now_ms)

    @property
    def believed(self) -> bool:
        """Whether they have gone on for a minute."""
        return self.first_ms is not None and (self.last_ms or 0) - self.first_ms >= LOGIN_REFUSED_MS


class MembershipConfig(Struct, frozen=True):
    """What a membership is set up with; ``subscription`` is how errors name what is read."""

    group_id: str
    group_instance_id: str
    subscription: str
    silent_ms: int
    """For so long a client may get no answer; then another does no harm, since the member's session is over."""
    host: str = ""
    """The driver's, which other runs of the group name."""


class Pending(Struct, frozen=True):
    """The request that is being worked at."""

    request: MembershipRequest
    phase: Phase = Phase.FETCH
    call: int | None = None  # the client's call that it waits for; its result, and no other, carries the request on
    offsets: Mapping[TopicPartition, tuple[int, str]] = field(
        default_factory=dict
    )  # to commit, of partitions that exist
    record: CommitMetadata | None = None  # that becomes this run's as soon as Kafka has it; of ReserveRequested only


class Membership(Struct, frozen=True):
    """One static membership of the group (KIP-345)."""

    config: MembershipConfig
    reservation: RunEpoch  # its ``own`` is what Kafka has of this run: set once its first record is committed
    heard_ms: int  # when a broker answered last, or the client in use was asked for
    state: MembershipState = MembershipState.STANDALONE
    failure: CohortError | None = None  # only in ENDED; the first one stays
    successor: CommitMetadata | None = None  # the later run that ended this one; only in ENDED
    client: int = 1  # the client in use; one more wherever another has to be made.  Never goes down
    informed: bool = False  # what earlier runs have left has been read; nothing is subscribed to before
    joined_once: bool = False  # a record that shows up from now on may be of a newer run
    topics: tuple[str, ...] = ()  # those to be subscribed to, sorted: what the metadata said last
    partitions: frozenset[TopicPartition] = frozenset()  # those that the query reads and that exist: as above
    subscribed: tuple[str, ...] = ()  # what the client in use is subscribed to; empty for a new one
    assigned: frozenset[TopicPartition] | None = None  # None from a revocation to the assignment after it
    # Known under this membership; empty unless STANDALONE or MEMBER.
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    calls: int = 0  # calls made so far, which number them
    reading: int | None = None  # the call that reads the group's metadata for this membership; begun after its join
    pending: Pending | None = None  # answered exactly once, when it goes; none in ENDED
    watch_until_ms: int = 0  # in WATCHING: until when a newer run may show
    next_watch_ms: int = 0  # when metadata are read again; unless MEMBER, and in STANDALONE until they are known
    next_look_ms: int = 0  # when topics and foreign members are looked at again; in JOINING and MEMBER
    fencings: int = 0  # each doubles the time of watching, four times at most
    login_refusals: LoginRefusals = LoginRefusals()


# --- events -------------------------------------------------------------------------------------


class TimePassed(Struct, frozen=True):
    """Time has passed (``deadline`` says when one is due)."""


class TopicsChanged(Struct, frozen=True):
    """The metadata's topics, and which partitions the query reads of them."""

    topics: tuple[str, ...]
    partitions: frozenset[TopicPartition]


class ClientFailed(Struct, frozen=True):
    """An unexpected error in the client's thread: the state of the client, and the outcome of its call, are unknown."""


class AssignmentReceived(Struct, frozen=True):
    """``ConsumerRebalanceListener.onPartitionsAssigned``."""

    partitions: frozenset[TopicPartition]


class RevocationReceived(Struct, frozen=True):
    """``onPartitionsRevoked`` or ``onPartitionsLost``: a rebalance, or the membership is lost."""


class Fenced(Struct, frozen=True):
    """FENCED_INSTANCE_ID, or another error after which the client is of no use; ``error`` is its name."""

    error: str


class LoginFailed(Struct, frozen=True):
    """The brokers refused our login, or their own identity was not proven."""

    error: CohortError


class StepFailed(Struct, frozen=True):
    """An error that waiting does not mend: no permission, another protocol in the group, a thread that is given up."""

    error: CohortError


class OffsetsFetched(Struct, frozen=True):
    """The result of ``FetchOffsets``."""

    call: int
    offsets: Mapping[TopicPartition, Committed]


class CommitAnswered(Struct, frozen=True):
    """The result of ``CommitOffsets``: what Kafka took, which partitions it does not know, and an error beside them, or ""."""

    call: int
    offsets: Mapping[TopicPartition, int]
    unknown: tuple[TopicPartition, ...] = ()
    error: str = ""


class CallFailed(Struct, frozen=True):
    """A call failed; ``silent``: no broker has answered it."""

    call: int
    error: str
    silent: bool = False


class FetchRequested(Struct, frozen=True):
    """A caller wants to know committed offsets."""

    request: int
    partitions: tuple[TopicPartition, ...]


class CommitRequested(Struct, frozen=True):
    """A caller wants these offsets committed, each with its metadata text; only with ``reset`` do they go down."""

    request: int
    offsets: Mapping[TopicPartition, tuple[int, str]]
    reset: bool
    topic_ids: Mapping[str, str]
    epochs: Mapping[TopicPartition, int]


class ReserveRequested(Struct, frozen=True):
    """A caller wants this run's epoch, and a (further) block of generations, committed with all of ``starts``."""

    request: int
    starts: Mapping[TopicPartition, int]
    pin: str
    plan: str
    topic_ids: Mapping[str, str]
    epochs: Mapping[TopicPartition, int]


class Join(Struct, frozen=True):
    """The first batch is planned: become the group's static member, as which alone its batches are committed."""


class Close(Struct, frozen=True):
    """No more, without LeaveGroup: the static member is there for the next run until its session ends."""


MembershipRequest: TypeAlias = FetchRequested | CommitRequested | ReserveRequested
MembershipEvent: TypeAlias = (
    MembershipRequest
    | TimePassed
    | TopicsChanged
    | ClientFailed
    | AssignmentReceived
    | RevocationReceived
    | Fenced
    | LoginFailed
    | StepFailed
    | OffsetsFetched
    | CommitAnswered
    | CallFailed
    | Join
    | Close
)

# --- actions ------------------------------------------------------------------------------------


class Subscribe(Struct, frozen=True):
    """Have the client subscribe, to nothing where there are no topics; for this client only."""

    client: int
    topics: tuple[str, ...]


class FetchOffsets(Struct, frozen=True):
    """Ask the group coordinator; then say ``OffsetsFetched`` or ``CallFailed``."""

    call: int
    partitions: tuple[TopicPartition, ...]


class CommitOffsets(Struct, frozen=True):
    """Commit; then say ``CommitAnswered`` or ``CallFailed``."""

    call: int
    offsets: tuple[OffsetToCommit, ...]


class LookForForeignMembers(Struct, frozen=True):
    """See whether others in the group hold these partitions, which are ours."""

    missing: frozenset[TopicPartition]


class DoubtMetadata(Struct, frozen=True):
    """Have the metadata read again: the brokers' answers contradict them."""


class ClientReplaced(Struct, frozen=True):
    """No broker has answered the client for so long; another one is made."""

    silent_ms: int


class Warn(Struct, frozen=True):
    """Tell the operator."""

    text: str


class MembershipAnswer(Struct, frozen=True):
    """The request is done, with ``result``; or can't be done: ``later`` says why not now, ``error`` why never."""

    request: int
    result: object = None
    later: str = ""
    error: CohortError | None = None


MembershipAction: TypeAlias = (
    Subscribe
    | FetchOffsets
    | CommitOffsets
    | LookForForeignMembers
    | DoubtMetadata
    | ClientReplaced
    | Warn
    | MembershipAnswer
)
