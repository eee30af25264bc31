"""A sink on a real broker whose driver and tasks are taken step by step: dropped, or gone on with later.

The driver's committer and the tasks' transactions are the product's.  Usage::

    with WrittenRecords() as java:
        sink = Sink(broker, java, topic)
        sink.batch(0)                                             # a whole batch
        sink.commit(sink.tasks(1), until=CommitPhase.COMMIT)      # the driver dies behind the decision
        sink.shows(0)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa

from sparkcohort.runtime.kafka.batch_commit import BatchCommit, CommitPhase
from sparkcohort.runtime.kafka.decision import SinkDecision, joined_decision
from sparkcohort.runtime.shell.kafka.produce.row_producer import Producer
from sparkcohort.runtime.shell.kafka.produce.sink_committer import SinkCommitter
from sparkcohort.runtime.shell.options.parse_sink import parse_sink
from sparkcohort.runtime.shell.options.sink_options import SinkOptions
from sparkcohort.streaming.exactly_once import TaskTransaction
from tests.kit.broker import Cluster
from tests.kit.waiting import wait_until
from tests.kit.written_records import WrittenRecords

PARTITIONS, TASKS, ROWS = 2, 2, 10
QUERY: Final = "query-1"
DONE: Final = (CommitPhase.DONE, CommitPhase.FAILED)


class Attempt:
    """An attempt of a task that has written its rows, or a part, and has told or has not."""

    def __init__(self, options: SinkOptions, batch: int, task: int, run: str, query: str = QUERY) -> None:
        """Begun, nothing written."""
        self._options, self._batch, self._task = options, batch, task
        self._query, self._run = query, run
        self._producer = Producer(options.producer)
        self.begin()

    def begin(self) -> None:
        """Another transaction of the same worker, by the connections that it has."""
        self._transaction = TaskTransaction(self._options, self._query, self._batch, self._run, is_written=False)
        self._transaction.begin(self._producer)

    def write(self) -> bytes:
        """All its rows, acknowledged; its message to the driver, behind which it writes nothing."""
        self.write_rows()
        return self._transaction.decision(self._producer)

    def write_rows(self) -> None:
        """Its rows, acknowledged."""
        values = [f"{self._batch}:{self._task}:{row}".encode() for row in range(ROWS)]
        partitions = pa.array([row % PARTITIONS for row in range(ROWS)], pa.int32())
        rows = {"topic": [self._options.topic] * ROWS, "partition": partitions, "value": values}
        self._producer.write(pa.RecordBatch.from_pydict(rows))
        self._producer.flush()

    def die(self) -> None:
        """Its connections are closed, and its transaction stays open."""
        self._producer.close()


class Sink:
    """A topic and a sink of its own, with what to do to them."""

    def __init__(self, broker: Cluster, java: WrittenRecords, topic: str) -> None:
        """The topic is made."""
        self.broker, self.topic = broker, topic
        self._java = java
        broker.admin.create_topic(topic, PARTITIONS)
        self.options = self.with_options()
        self.run = ""
        self.has_checks = True  # the broker's leaders ask whether a partition is part of a transaction (KIP-890)

    def texts(self, **more: str) -> dict[str, str]:
        """The sink's options as a user gives them; ``more`` with ``__`` for ``.``."""
        return {
            "kafka.bootstrap.servers": self.broker.bootstrap,
            "topic": self.topic,
            "delivery.guarantee": "exactly-once",
            "sink.id": self.topic,
            **{name.replace("__", "."): value for name, value in more.items()},
        }

    def with_options(self, **more: str) -> SinkOptions:
        """The sink's options."""
        return parse_sink(self.texts(**more))

    def attempt(self, batch: int, task: int, query: str = QUERY) -> Attempt:
        """An attempt of the driver that has begun last; the first one begins here."""
        if not self.run:
            self.start()
        return Attempt(self.options, batch, task, self.run, query)

    def tasks(self, batch: int, query: str = QUERY) -> list[bytes]:
        """The messages of all tasks of a batch; their workers end."""
        messages = []
        for task in range(TASKS):
            attempt = self.attempt(batch, task, query)
            messages.append(attempt.write())
            attempt.die()
        return messages

    def commit(self, messages: Sequence[bytes], until: CommitPhase | None = None) -> BatchCommit:
        """As a new driver commits a batch, up to before this phase."""
        with closing(committer_of(self.options)) as committer:
            return run(committer, messages, until)

    def start(self) -> SinkDecision:
        """As a driver begins; older ones can decide nothing from then on."""
        with closing(committer_of(self.options)) as committer:
            last = committer.begin_run().proposal
        self.run = last.run
        return last

    def batch(self, batch: int) -> None:
        """A batch without any trouble."""
        assert self.commit(self.tasks(batch)).phase is CommitPhase.DONE

    def seen(self) -> Counter[str]:
        """What a ``read_committed`` reader sees: rows by batch and task."""
        rows = [
            row
            for partition in range(PARTITIONS)
            for row in self._java.committed(self.broker.bootstrap, self.topic, partition)
        ]
        return Counter((row.value or b"").decode().rpartition(":")[0] for row in rows)

    def shows(self, *batches: int) -> None:
        """Just these batches are visible, whole and once, as soon as the markers are written."""
        expected = Counter({f"{batch}:{task}": ROWS for batch in batches for task in range(TASKS)})

        def is_shown() -> bool:
            seen = self.seen()
            assert not seen - expected, f"too much is visible: {seen - expected}"
            return seen == expected

        wait_until(is_shown, 30, f"{expected}")

    def open_names(self) -> set[str]:
        """Transactions of tasks that are open."""
        with closing(committer_of(self.options)) as committer:
            return {each.name for each in committer.open_transactions()}


def committer_of(options: SinkOptions) -> SinkCommitter:
    """A driver's."""
    return SinkCommitter(options.producer, options.sink_id, options.state_topic)


def run(committer: SinkCommitter, messages: Sequence[bytes], until: CommitPhase | None = None) -> BatchCommit:
    """A batch's commit, step by step, up to before a phase."""
    return go_on(committer, committer.begin_commit(joined_decision(messages)), until)


def go_on(committer: SinkCommitter, state: BatchCommit, until: CommitPhase | None = None) -> BatchCommit:
    """The steps that are left."""
    while state.phase not in DONE and state.phase is not until:
        state = committer.step(state)
    return state
