"""Which partitions there are and who leads them: the subscription resolved against the cluster's metadata.

``subscribePattern`` follows Spark's default (Admin) path: the expression is *searched* in the topic name, not matched
from its start, and Kafka's internal topics never count.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import TopicMetadata

from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.kafka.addresses import joined
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.racks import NodeRacks
from sparkcohort.runtime.shell.kafka import clients, errors
from sparkcohort.runtime.shell.kafka.renewed_client import RenewedClient
from sparkcohort.runtime.shell.kafka.topic_ids import TopicIds
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.options.topic_pattern import PatternError, topic_pattern
from sparkcohort.runtime.text import printable

log = logging.getLogger("sparkcohort.discovery")

NAMED = 5  # topics that a warning tells of
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Kafka's rule: a broker that tells of other names is none
MOST_HOST = 300
LOOK_TIMEOUT_S = 5.0
ASK_GAP_S = 0.05  # an error may come at once
NEW_TOPIC_S = 3.0  # a topic made a moment ago may not be known to the broker that is asked


@dataclass(frozen=True)
class Layout:
    """Partitions with their leader's node id (-1: none), the nodes' addresses, the racks of the replicas, the topics' ids.

    What follows from these is asked for with every trigger and every commit, so it is worked out once.
    """

    leaders: Mapping[TopicPartition, int]
    nodes: Mapping[int, str] = field(default_factory=dict)
    racks: Mapping[TopicPartition, frozenset[str]] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """The topics, with the number of partitions of each (for ``assign``: up to the highest one named)."""
        counts: dict[str, int] = {}
        for tp in self.leaders:
            counts[tp.topic] = max(counts.get(tp.topic, 0), tp.partition + 1)
        return counts

    @cached_property
    def partitions(self) -> frozenset[TopicPartition]:
        """All partitions."""
        return frozenset(self.leaders)

    @cached_property
    def by_leader(self) -> Mapping[int, tuple[TopicPartition, ...]]:
        """The partitions of each leader there is, in order."""
        shares: dict[int, list[TopicPartition]] = {}
        for tp, leader in sorted(self.leaders.items()):
            if leader >= 0:
                shares.setdefault(leader, []).append(tp)
        return {leader: tuple(tps) for leader, tps in shares.items()}

    @cached_property
    def leaderless(self) -> frozenset[TopicPartition]:
        """Partitions that nobody leads now."""
        return frozenset(tp for tp, leader in self.leaders.items() if leader < 0)

    def address(self, node: int) -> str:
        """host:port of a node."""
        return self.nodes.get(node, "address unknown")


class Discovery:
    """Looks the subscription up; ``client`` is what it does so with (also for ListOffsets)."""

    def __init__(self, options: SourceOptions) -> None:
        self._conf = {**options.kafka, "group.id": options.group_id} if options.group_id else dict(options.kafka)
        self._subscription = options.subscription
        self._limit_ms = options.api_timeout_ms
        self._retry_s = min(options.fetch_retry_interval_ms / 1000, 1.0)
        self._last_error = ""
        self._fatal: CohortError | None = None
        self._lacking: frozenset[TopicPartition] = frozenset()
        self._layout = Layout({})
        self._racks = NodeRacks(options.kafka) if options.client_rack or options.client_rack_env else None
        self._ids = TopicIds(options.kafka)
        self._kept: RenewedClient[Consumer] = RenewedClient(options.kafka)
        self.in_doubt = False
        self._looked = False  # for what a pattern finds

    def first(self) -> Layout:
        """Connect and look.

        Raises ``CohortError`` naming the option or resource: no answer within the limit, authentication, missing topic
        or partition, no permission.
        """
        self._renewed()
        deadline = time.monotonic() + self._limit_ms / 1000
        self._reach(deadline)
        while True:
            layout, missing = self._look(max(min(deadline - time.monotonic(), LOOK_TIMEOUT_S), 0.1))
            if layout is not None and not missing:
                self._layout = layout
                return layout
            if layout is not None and time.monotonic() > deadline - self._limit_ms / 1000 + NEW_TOPIC_S:
                raise self._absent(missing)
            if time.monotonic() > deadline:
                raise errors.unreached(self._conf, self._limit_ms, self._last_error)
            threading.Event().wait(self._retry_s)

    def client(self) -> Consumer | None:
        """The consumer, for other threads; None once it is let go of."""
        return self._kept.client

    def release(self) -> None:
        """Let go of the clients, for good; for the thread that looks."""
        self._kept.release()
        self._ids.release()
        if self._racks is not None:
            self._racks.release()

    def again(self) -> Layout | None:
        """A later look: None when the cluster did not answer.

        What was there and isn't is gone when it is lacking twice in a row: the broker that was asked may be behind the
        others.  Until the second look there is doubt (``in_doubt``).  Raises ``CohortError`` when the permission is gone.
        """
        self._renewed().poll(0)  # serves log lines and errors, nothing is subscribed
        now, _missing = self._look(LOOK_TIMEOUT_S)
        self._kept.answered(yes=now is not None)
        if now is None:
            return None
        before = self._layout
        lacking = frozenset(before.leaders.keys() - now.leaders.keys())
        spared = lacking - self._lacking
        self._lacking, self.in_doubt = lacking, bool(spared)
        kept = {tp: before.leaders[tp] for tp in spared}
        homes = {tp: before.racks[tp] for tp in spared if tp in before.racks}
        # A broker that is down is not in the metadata, its address still helps.
        self._layout = Layout({**kept, **now.leaders}, {**before.nodes, **now.nodes}, {**homes, **now.racks}, now.ids)
        return self._layout

    # --- inside ------------------------------------------------------------------------------------

    def _renewed(self) -> Consumer:
        return self._kept.get(lambda: clients.new_consumer(self._conf, self._on_error))

    def _consumer(self) -> Consumer:
        """Not for a variable: an error's traceback would keep a client that is let go of."""
        return self._kept.client or self._renewed()

    def _reach(self, deadline: float) -> None:
        """Wait until any broker answers; an authentication error ends the wait at once."""
        clients.connect(self._consumer(), self._probe())
        while True:
            try:
                self._consumer().list_topics(
                    topic=self._probe(), timeout=max(min(deadline - time.monotonic(), 1.0), 0.05)
                )
                return
            except KafkaException as error:
                threading.Event().wait(ASK_GAP_S)
                self._consumer().poll(0)
                self._kept.answered(yes=False)
                if self._fatal is not None:
                    raise self._fatal from None
                if time.monotonic() >= deadline:
                    raise errors.unreached(
                        self._conf, self._limit_ms, self._last_error or clients.text_of(error)
                    ) from None

    def _probe(self) -> str | None:
        """One topic to ask for, so that the first answer is small; None asks for all (a pattern does anyway)."""
        return next(iter(self._topics()), None)

    def _topics(self) -> tuple[str, ...]:
        return self._subscription.topics or tuple(sorted({tp.topic for tp in self._subscription.partitions}))

    def _on_error(self, error: KafkaError) -> None:
        self._last_error = clients.text_of(error)
        if error.code() in errors.AUTHENTICATION:
            self._fatal = errors.unauthenticated(self._conf, self._last_error)

    def _look(self, timeout_s: float) -> tuple[Layout | None, frozenset[str]]:
        """The layout (None: no answer) and the topics, or partitions of ``assign``, that are missing."""
        leaders: dict[TopicPartition, int] = {}
        missing: set[str] = set()
        nodes: dict[int, str] = {}
        replicas: dict[TopicPartition, Sequence[int]] = {}
        try:
            for name in self._topics() or (None,):
                found = (
                    self._consumer().list_topics(topic=name, timeout=timeout_s)
                    if name
                    else self._consumer().list_topics(timeout=timeout_s)
                )
                if not found.brokers:  # a broker that has just come back and isn't let in yet knows nothing
                    self._last_error = "the broker that was asked knows of no broker"
                    return None, frozenset()
                nodes |= {
                    node.id: printable(joined(node.host, node.port), MOST_HOST) for node in found.brokers.values()
                }
                for topic in found.topics.values() if name else self._matching(found.topics.values()):
                    self._add(topic, leaders, replicas, missing)
        except KafkaException as error:
            self._last_error = clients.text_of(error)
            return None, frozenset()
        racks = self._racks.of(replicas) if self._racks else {}
        wanted = self._subscribed(leaders)
        ids = self._ids.of({tp.topic for tp in wanted})
        return Layout(wanted, nodes, racks, ids), frozenset(missing) | self._unknown(leaders, missing)

    def selects(self, tp: TopicPartition) -> bool:
        """Whether the options ask for this partition, be it there or not."""
        if not self._subscription.pattern:
            return tp.topic in self._subscription.topics or tp in self._subscription.partitions
        try:
            return topic_pattern(self._subscription.pattern).finds(tp.topic)
        except PatternError:  # as ``_matching`` tells
            return True

    def _matching(self, topics: Iterable[TopicMetadata]) -> list[TopicMetadata]:
        pattern = topic_pattern(self._subscription.pattern)
        legal = [topic for topic in topics if LEGAL.fullmatch(str(topic.topic)) and topic.topic not in INTERNAL]
        try:
            found = [topic for topic in legal if pattern.finds(str(topic.topic))]
        except PatternError as error:
            raise OptionError(f"option subscribePattern={self._subscription.pattern}: {error}") from None
        if not found and not self._looked:
            names = sorted(str(topic.topic) for topic in legal)
            log.warning(
                "option subscribePattern=%s finds none of the %d topics that this user may see%s; topics that come to be are "
                "read as soon as they are found",
                self._subscription.pattern,
                len(names),
                f" ({', '.join(names[:NAMED])}{', …' if len(names) > NAMED else ''})" if names else "",
            )
        self._looked = True
        return found

    def _add(
        self,
        topic: TopicMetadata,
        leaders: dict[TopicPartition, int],
        replicas: dict[TopicPartition, Sequence[int]],
        missing: set[str],
    ) -> None:
        name, error = str(topic.topic), topic.error
        if error is not None and error.code() == errors.TOPIC_DENIED:
            raise errors.topic_denied([name])
        if error is not None and error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
            missing.add(name)
            return
        for number, partition in topic.partitions.items():
            leaders[TopicPartition(name, number)] = partition.leader
            replicas[TopicPartition(name, number)] = partition.replicas

    def _subscribed(self, leaders: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        fixed = self._subscription.partitions
        return {tp: leaders[tp] for tp in fixed if tp in leaders} if fixed else leaders

    def _unknown(self, leaders: Mapping[TopicPartition, int], missing: set[str]) -> frozenset[str]:
        return frozenset(
            f"{tp.topic}-{tp.partition}"
            for tp in self._subscription.partitions
            if tp not in leaders and tp.topic not in missing
        )

    def _absent(self, missing: frozenset[str]) -> CohortError:
        what = "partition" if self._subscription.kind == "assign" and not missing & set(self._topics()) else "topic"
        cluster = self._conf.get("bootstrap.servers", "")
        return OptionError(
            f"option {self._subscription.kind} names {what} {', '.join(sorted(missing))}, which the cluster at "
            f"{cluster} "
            "does not have: create it, correct the name, or allow this user to DESCRIBE it",
            "UNKNOWN_TOPIC_OR_PARTITION",
        )
