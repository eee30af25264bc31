"""Which partitions there are and who leads them: the subscription resolved against the cluster's metadata.

``subscribePattern`` follows Spark's default (Admin) path: the expression is *searched* in the topic name, not matched
from its start, and Kafka's internal topics never count.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sparkcohort.runtime.errors import CohortError, OptionError
from sparkcohort.runtime.kafka.addresses import joined
from sparkcohort.runtime.kafka.cluster_messages import MetadataQuestion, topic_ids
from sparkcohort.runtime.kafka.fetch_messages import Metadata
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.kafka import errors
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.options.connection_settings import ConnectionRefused, TransportError
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.options.topic_pattern import PatternError, finds
from sparkcohort.runtime.text import printable

log = logging.getLogger("sparkcohort.discovery")

MOST_NAMED = 5  # topics in a warning
INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")  # Kafka's rule: a broker that tells of other names is none
MOST_HOST = 300
LOOK_TIMEOUT_S = 5.0
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
        """Partitions without a leader now."""
        return frozenset(tp for tp, leader in self.leaders.items() if leader < 0)

    def address(self, node: int) -> str:
        """host:port of a node."""
        return self.nodes.get(node, "address unknown")


class Discovery:
    """Makes layouts of the cluster's metadata; for one thread at a time."""

    def __init__(self, options: SourceOptions) -> None:
        self._conf = {**options.kafka, "group.id": options.group_id} if options.group_id else dict(options.kafka)
        self._subscription = options.subscription
        self._limit_ms = options.api_timeout_ms
        self._retry_s = min(options.fetch_retry_interval_ms / 1000, 1.0)
        self._missing_before: frozenset[TopicPartition] = frozenset()
        self._layout = Layout({})
        self._members_have_racks = bool(options.client_rack or options.client_rack_env)
        self._racks: dict[int, str] = {}
        self._ids: dict[str, str] = {}
        self.in_doubt = False
        self._matched_once = False  # whether a pattern has been matched: one that finds nothing is logged once

    def question(self) -> MetadataQuestion:
        """What to ask the cluster for."""
        return MetadataQuestion(None if self._subscription.pattern else self._topics())

    def first(self, client: ClusterClient) -> Layout:
        """Connect and look.

        Raises ``CohortError`` naming the option or resource: no answer within the limit, authentication, missing topic
        or partition, no permission.
        """
        began, deadline = time.monotonic(), time.monotonic() + self._limit_ms / 1000
        reason = ""
        while True:
            left_s = max(min(deadline - time.monotonic(), LOOK_TIMEOUT_S), 0.1)
            try:
                layout, missing = self._resolve(client.metadata(self.question(), left_s))
                if not missing:
                    self._layout = layout
                    return layout
                if time.monotonic() > began + NEW_TOPIC_S:
                    raise self._absent(missing)
            except ConnectionRefused as error:
                raise errors.unauthenticated(self._conf, str(error)) from None
            except TransportError as error:
                reason = str(error)
            if time.monotonic() > deadline:
                raise errors.unreachable_error(self._conf, self._limit_ms, reason)
            threading.Event().wait(self._retry_s)

    def next_layout(self, metadata: Metadata) -> Layout:
        """The layout of further metadata.

        A partition is deleted once it is missing twice in a row: the broker that answered may be behind the others.  Until
        the second answer there is doubt (``in_doubt``).  Raises ``CohortError`` when the permission is gone.
        """
        now, _ = self._resolve(metadata)
        old = self._layout
        missing = frozenset(old.leaders.keys() - now.leaders.keys())
        spared = missing - self._missing_before
        self._missing_before, self.in_doubt = missing, bool(spared)
        leaders = {tp: old.leaders[tp] for tp in spared}
        homes = {tp: old.racks[tp] for tp in spared if tp in old.racks}
        # A broker that is down is not in the metadata, its address still helps.
        self._layout = Layout({**leaders, **now.leaders}, {**old.nodes, **now.nodes}, {**homes, **now.racks}, now.ids)
        return self._layout

    # --- inside ------------------------------------------------------------------------------------

    def _topics(self) -> tuple[str, ...]:
        return self._subscription.topics or tuple(sorted({tp.topic for tp in self._subscription.partitions}))

    def _resolve(self, metadata: Metadata) -> tuple[Layout, frozenset[str]]:
        """The layout, and the topics, or partitions of ``assign``, that are missing."""
        leaders: dict[TopicPartition, int] = {}
        replicas: dict[TopicPartition, Sequence[int]] = {}
        names = self._matching(metadata) if self._subscription.pattern else list(self._topics())
        unknown: set[str] = set()
        for name in names:
            topic = metadata.topics.get(name)
            if topic is not None and topic.error == errors.TOPIC_DENIED:
                raise errors.topic_denied([name])
            if topic is None or topic.error:
                unknown.add(name)
                continue
            for number, partition in topic.leaders.items():
                leaders[TopicPartition(name, number)] = partition.node
                replicas[TopicPartition(name, number)] = partition.replicas
        fixed = self._subscription.partitions
        absent = {f"{tp.topic}-{tp.partition}" for tp in fixed if tp not in leaders and tp.topic not in unknown}
        if fixed:
            leaders = {tp: leaders[tp] for tp in fixed if tp in leaders}
        nodes = {number: printable(joined(*node), MOST_HOST) for number, node in metadata.nodes.items()}
        racks = self._replica_racks(metadata, {tp: replicas[tp] for tp in leaders})
        layout = Layout(leaders, nodes, racks, self._known_ids(metadata, {tp.topic for tp in leaders}))
        return layout, frozenset(unknown | absent)

    def _replica_racks(
        self, metadata: Metadata, replicas: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, frozenset[str]]:
        """The racks of each partition's replicas, where an option gives members racks.

        A broker that is down is not in the metadata any more, and still is where it was.
        """
        self._racks |= metadata.racks
        if not self._racks or not self._members_have_racks:
            return {}
        alike = {  # replicas lie alike for many partitions
            nodes: frozenset(self._racks[node] for node in nodes if node in self._racks)
            for nodes in {tuple(nodes) for nodes in replicas.values()}
        }
        return {tp: alike[tuple(nodes)] for tp, nodes in replicas.items()}

    def _known_ids(self, metadata: Metadata, topics: set[str]) -> dict[str, str]:
        """The topics' ids; as last known of those that this answer doesn't tell."""
        ids = {**self._ids, **topic_ids(metadata)}
        self._ids = {topic: ids[topic] for topic in sorted(topics) if topic in ids}
        return dict(self._ids)

    def _matching(self, metadata: Metadata) -> list[str]:
        legal = [name for name in metadata.topics if LEGAL.fullmatch(name) and name not in INTERNAL]
        try:
            matching = [name for name in legal if finds(self._subscription.pattern, name)]
        except PatternError as error:
            raise OptionError(f"option subscribePattern={self._subscription.pattern}: {error}") from None
        if not matching and not self._matched_once:
            names = sorted(legal)
            log.warning(
                "option subscribePattern=%s finds none of the %d topics that this user may see%s; topics that come to be are "
                "read as soon as they are found",
                self._subscription.pattern,
                len(names),
                f" ({', '.join(names[:MOST_NAMED])}{', …' if len(names) > MOST_NAMED else ''})" if names else "",
            )
        self._matched_once = True
        return matching

    def _absent(self, missing: frozenset[str]) -> CohortError:
        kind = "partition" if self._subscription.kind == "assign" and not missing & set(self._topics()) else "topic"
        cluster = self._conf.get("bootstrap.servers", "")
        return OptionError(
            f"option {self._subscription.kind} names {kind} {', '.join(sorted(missing))}, which the cluster at "
            f"{cluster} "
            "does not have: create it, correct the name, or allow this user to DESCRIBE it",
            "UNKNOWN_TOPIC_OR_PARTITION",
        )
