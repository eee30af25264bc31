"""One campaign: start, hurt, heal, let it read to the end, judge."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from sparkcohort.runtime.shell.kafka.produce.sink_committer import SinkCommitter
from sparkcohort.runtime.shell.options.parse_sink import parse_sink
from tests.chaos.endings import Excuses
from tests.chaos.faults import Scene, at_work
from tests.chaos.judge import Evidence, Verdict, judge, lateness, latest, standstills
from tests.chaos.query import QueryUnderTest
from tests.chaos.reader import Reader
from tests.chaos.schedule import BROKERS, Fault
from tests.chaos.watch import Watch
from tests.kit import delivery
from tests.kit.broker import Cluster
from tests.kit.produce import Steady

TOPIC, COPY = "orders", "billed"
PARTITIONS: Final = 12
RATE: Final = 600
AFTER_S: Final = 30.0
"""A standstill that ends so long after a fault is still that fault's."""
READ_S: Final = 420.0
NEVER_GIVES_UP: Final[dict[str, str | int | bool]] = {
    "message_timeout_ms": 0,
    "max_in_flight": 5,
    "reconnect_backoff_max_ms": 500,
}
PROPERTIES: Final = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "5000",
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "3000",
    "offsets.commit.timeout.ms": "5000",
}


@dataclass
class Outcome:
    """What a campaign came to."""

    verdict: Verdict
    standstills: Mapping[str, float]
    late: Mapping[str, float]
    """By kind of fault, of a query that writes to Kafka: how long after a batch readers still waited for it (s)."""
    faults: Counter[str]
    figures: Sequence[str]
    grown: Sequence[str]
    looked: str
    """How much of the history the judge had to look at."""
    restarts: int

    @property
    def well(self) -> bool:
        """Whether no record and no figure is wrong."""
        return self.verdict.well and not self.grown


class Campaign:
    """A cluster, a query and a schedule."""

    def __init__(
        self,
        folder: Path,
        faults: Sequence[Fault],
        length_s: float,
        say: Callable[[str], None],
        *,
        exactly_once: bool = False,
    ) -> None:
        """``exactly_once``: the query writes to ``COPY``; else its sink is idempotent by batch."""
        self._exactly_once = exactly_once
        self._folder, self._faults, self._length_s, self._say = folder, faults, length_s, say
        self._began = 0.0
        self._at_work: dict[int, tuple[Fault, float, Any]] = {}  # until when
        self._hits: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
        self._excuses = Excuses()

    def run(self) -> Outcome:
        """Run it to its verdict.  Raises AssertionError where the query does not read on when all is healed."""
        with Cluster(BROKERS, replicated=True, properties=PROPERTIES, heap_mb=400) as cluster:
            everywhere = [[1 + (number + more) % BROKERS for more in range(BROKERS)] for number in range(PARTITIONS)]
            for topic in (TOPIC, COPY) if self._exactly_once else (TOPIC,):
                cluster.admin.create_topic(topic, assignment=everywhere)
            query = QueryUnderTest(
                self._folder, self._options(cluster), self._is_excused, self._tell, self._sink(cluster)
            )
            watch = Watch(query, lambda: _named(cluster.admin.committed(TOPIC)))
            reader = Reader(cluster.bootstrap, COPY, PARTITIONS) if self._exactly_once else None
            producing = Steady(cluster.bootstrap, TOPIC, partitions=PARTITIONS, rate=RATE, conf=NEVER_GIVES_UP)
            try:
                query.open()
                with producing:
                    query.wait_for_batches(READ_S)
                    watch.start()
                    if reader is not None:
                        reader.start()
                    self._hurt(Scene(cluster, query))
                    cluster.start()
                self._tell("all is healed; it reads to the end")
                query.wait_until_read(READ_S)
                watch.close()
                if reader is not None:
                    reader.close()
                query.close()
                return self._outcome(cluster, query, watch, reader, producing)
            finally:
                query.kill()

    def _options(self, cluster: Cluster) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "subscribe": TOPIC,
            "group.id": TOPIC,
            "startingOffsets": "earliest",
            "kafka.session.timeout.ms": "10000",
            "kafka.default.api.timeout.ms": "60000",
        }

    def _sink(self, cluster: Cluster) -> dict[str, str]:
        if not self._exactly_once:
            return {}
        own = {"delivery.guarantee": "exactly-once", "sink.id": COPY, "topic": COPY}
        return {"kafka.bootstrap.servers": cluster.bootstrap, **own}

    def _tell(self, line: str) -> None:
        at = time.monotonic() - self._began if self._began else 0.0
        self._say(f"{at:7.1f} s  {line}")

    def _is_excused(self, whose: str, why: str) -> bool:
        return self._excuses.take(whose, why, time.monotonic())

    # --- hurting ------------------------------------------------------------------------------------

    def _hurt(self, scene: Scene) -> None:
        self._began = time.monotonic()
        waiting, late_s = list(self._faults), 0.0
        nobody = threading.Event()
        while (now := time.monotonic() - self._began) < self._length_s or self._at_work:
            for number, (fault, until_s, block) in list(self._at_work.items()):
                if until_s <= now:
                    self._heal(number, fault, block)
            while waiting and waiting[0].at_s + late_s <= now < self._length_s:
                self._strike(scene, waiting.pop(0))
                # Whatever comes after one that takes its time keeps its distance: else all would strike at once, and none alone.
                took_s = time.monotonic() - self._began - now
                late_s, now = late_s + took_s, now + took_s
            scene.query.look()
            nobody.wait(0.2)

    def _strike(self, scene: Scene, fault: Fault) -> None:
        block = at_work(scene, fault)
        begun = time.monotonic()
        try:
            hit = block.__enter__()
        except AssertionError as error:
            # A broker that takes its time is back before the end, or the campaign fails there.
            self._tell(f"{fault.kind.name}: not done, {error}")
            return
        self._tell(
            f"{fault.kind.name}{f' for {fault.seconds:g} s' if fault.seconds else ''}: {hit or 'nobody is there'}"
        )
        over_s = time.monotonic() + fault.seconds
        if hit:
            self._hits[fault.kind.name].append((fault.kind.name, begun, over_s))
            if fault.kind.ends is not None:
                self._excuses.allow(fault.kind.ends, over_s)
        self._at_work[id(fault)] = (fault, time.monotonic() - self._began + fault.seconds, block)  # it may begin late

    def _heal(self, number: int, fault: Fault, block: Any) -> None:
        self._at_work.pop(number)
        block.__exit__(None, None, None)
        if fault.seconds:
            self._tell(f"{fault.kind.name} is over")

    # --- judging ------------------------------------------------------------------------------------

    def _outcome(
        self, cluster: Cluster, query: QueryUnderTest, watch: Watch, reader: Reader | None, producing: Steady
    ) -> Outcome:
        held = delivery.held(cluster.bootstrap, [TOPIC])
        if self._exactly_once:
            wrong, batches = copied(held, delivery.held(cluster.bootstrap, [COPY])), [(0, _offsets(held))]
            wrong += [f"left open: {name}" for name in left_open(self._sink(cluster))]
        else:
            delivered = delivery.from_parquet(query.out)
            report = delivery.check(delivered, held)
            wrong = [f"changed: {topic}-{number}@{at}" for topic, number, at in (*report.changed, *report.foreign)]
            batches = _by_batch(delivered)
        acknowledged = {f"{TOPIC}-{number}": count for number, count in producing.counts.items()}
        evidence = Evidence(_offsets(held), acknowledged, batches, query.ranges(), watch.commits, wrong)
        hits, written_at = [hit for several in self._hits.values() for hit in several], query.written_at()
        late = [] if reader is None else lateness(reader.sights, written_at)
        return Outcome(
            judge(evidence, query.unexcused),
            standstills(written_at, hits, AFTER_S),
            latest(late, hits, AFTER_S) if late else {},
            Counter({name: len(several) for name, several in self._hits.items()}),
            watch.table(),
            watch.grown(),
            f"looked at: {len(evidence.ranges):,} batches, {len(watch.commits):,} commits",
            query.starts - 1,
        )


def copied(held: pa.Table, copy: pa.Table) -> list[str]:
    """What the copy lacks, and what it has too often, of records that are the same in each byte: by partition and checksum."""
    had, has = (
        Counter(zip(*(each[name].to_pylist() for name in ("partition", "crc")), strict=True)) for each in (held, copy)
    )
    kinds = (("lost", had - has), ("doubled", has - had))
    return [
        f"{kind}: {TOPIC}-{number}, {count} of checksum {crc}"
        for kind, what in kinds
        for (number, crc), count in what.items()
    ]


def left_open(sink: Mapping[str, str]) -> list[str]:
    """Transactions of the sink that are open when its query has ended."""
    options = parse_sink(sink)
    with closing(SinkCommitter(options.producer, options.sink_id, options.state_topic)) as committer:
        return sorted(each.name for each in committer.open_transactions())


def _named(offsets: Mapping[tuple[str, int], int]) -> dict[str, int]:
    return {f"{topic}-{number}": at for (topic, number), at in offsets.items() if topic == TOPIC}


def _offsets(records: pa.Table) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for number, offset in zip(records["partition"].to_pylist(), records["offset"].to_pylist(), strict=True):
        found[f"{TOPIC}-{number}"].append(offset)
    return {at: sorted(offsets) for at, offsets in found.items()}


def _by_batch(delivered: pa.Table) -> list[tuple[int, dict[str, list[int]]]]:
    found: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    columns = (delivered[name].to_pylist() for name in ("batch_id", "partition", "offset"))
    for batch, number, offset in zip(*columns, strict=True):
        found[batch][f"{TOPIC}-{number}"].append(offset)
    return [(batch, {at: sorted(offsets) for at, offsets in found[batch].items()}) for batch in sorted(found)]
