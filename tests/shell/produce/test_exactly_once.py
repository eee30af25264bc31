"""The crash table of docs/audit/exactly-once.md on a real broker: whoever dies or wakes at a step, a batch is visible whole and once.

The driver's committer and the tasks' transactions are the product's; who dies is dropped at the step, who is frozen goes on later.
What is visible is read by Kafka's own consumer with ``read_committed``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.kafka.batch_commit import CommitFailure, CommitPhase
from sparkcohort.runtime.kafka.decision import SinkDecision, joined_decision
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.produce import commit_process as commit_process_module
from sparkcohort.runtime.shell.kafka.produce import transaction_client
from sparkcohort.runtime.shell.kafka.produce.row_producer import Producer
from sparkcohort.runtime.shell.kafka.produce.transaction_client import TransactionClient
from sparkcohort.streaming import exactly_once
from sparkcohort.streaming.exactly_once import TaskTransaction
from tests.kit.broker import Broker, Cluster
from tests.kit.exactly_once_sink import QUERY, Sink, committer_of, go_on, run
from tests.kit.produce import produce
from tests.kit.tier import of_tier
from tests.kit.waiting import hold_for, wait_until
from tests.kit.written_records import WrittenRecords

WITHOUT_CHECKS = "without KIP-890's checks"


@pytest.fixture(
    scope="module",
    params=of_tier(quick=("as it comes",), thorough=("as it comes", "transaction.version=1", WITHOUT_CHECKS)),
)
def kafka(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker with either version of transactions (KIP-890), and one that doesn't ask whether a partition is part of one."""
    if request.param == "as it comes":
        yield request.getfixturevalue("broker")
        return
    feature = {"feature": "transaction.version=1"}
    checks = {"transaction.partition.verification.enable": "false"} if "checks" in request.param else {}
    with Broker(properties=feature | checks) as broker:
        yield broker


@pytest.fixture
def sink(kafka: Broker, java: WrittenRecords, topic: str, request: pytest.FixtureRequest) -> Sink:
    """A sink that has written nothing."""
    sink = Sink(kafka, java, topic)
    sink.has_checks = request.node.callspec.params["kafka"] != WITHOUT_CHECKS
    return sink


def test_batches_come_once_and_not_before_they_are_decided(sink: Sink) -> None:
    """Nothing before the commit, all after it, and the next batch behind it."""
    messages = sink.tasks(0)
    sink.shows()
    assert sink.commit(messages).phase is CommitPhase.DONE
    sink.shows(0)
    sink.batch(1)
    sink.batch(2)
    sink.shows(0, 1, 2)
    assert sink.open_names() == set()


def test_row_1_an_attempt_dies_and_another_takes_its_place(sink: Sink) -> None:
    """What the first had written is aborted with the commit, so that readers go on."""
    sink.batch(0)
    dead = sink.attempt(1, 0)
    dead.write()
    dead.die()
    sink.batch(1)
    sink.shows(0, 1)
    assert sink.open_names() == set()


def test_row_2_two_attempts_end_well(sink: Sink) -> None:
    """One message counts; what the other wrote is aborted."""
    attempts = [sink.attempt(0, 0), sink.attempt(0, 0), sink.attempt(0, 1)]
    messages = [attempt.write() for attempt in attempts]
    assert sink.commit([messages[1], messages[2]]).phase is CommitPhase.DONE
    for attempt in attempts:
        attempt.die()
    sink.shows(0)
    assert sink.open_names() == set()


def test_row_3_a_frozen_attempt_wakes_in_a_later_batch(sink: Sink) -> None:
    """Its transaction was aborted with its batch's commit: what it writes is refused."""
    frozen = sink.attempt(0, 0)
    frozen.write_rows()
    sink.batch(0)
    sink.batch(1)
    if not sink.has_checks:
        frozen.write()  # its leader lets it begin again what nobody will end: readers stand still there, and read nothing wrong
        frozen.die()
        for batch in (2, 3, 4):  # which use ids again
            sink.batch(batch)
        sink.shows(0, 1)
        seen = sink.seen()
        hold_for(lambda: sink.seen() == seen, 2, "nothing of it becomes visible")
        return
    with pytest.raises(CohortError):
        frozen.write()
    sink.batch(2)
    sink.shows(0, 1, 2)
    assert sink.open_names() == set()


def test_row_3_a_frozen_attempt_that_had_written_nothing(sink: Sink) -> None:
    """Its transaction begins when it wakes, and the next commit aborts it."""
    frozen = sink.attempt(0, 0)
    sink.batch(0)
    frozen.write()
    frozen.die()
    sink.batch(1)
    sink.shows(0, 1)
    assert sink.open_names() == set()


@pytest.mark.parametrize(
    "phase", [CommitPhase.CLAIM, CommitPhase.READ, CommitPhase.CHECK, CommitPhase.DECIDE], ids=lambda each: each.name
)
def test_row_4_the_driver_dies_before_the_decision(sink: Sink, phase: CommitPhase) -> None:
    """Nothing of the first try is ever visible."""
    sink.batch(0)
    sink.commit(sink.tasks(1), until=phase)
    sink.shows(0)
    assert sink.start().batch == 0
    assert sink.open_names() == set()
    sink.shows(0)
    sink.batch(1)
    sink.shows(0, 1)
    assert sink.open_names() == set()


def test_row_5_the_driver_dies_after_the_decision(sink: Sink) -> None:
    """The next start commits what is decided; the batch is not written again."""
    sink.batch(0)
    state = sink.commit(sink.tasks(1), until=CommitPhase.COMMIT)
    assert state.decision is not None
    assert state.decision.batch == 1
    sink.shows(0)
    assert sink.start().batch == 1
    sink.shows(0, 1)
    replayed = [
        TaskTransaction(sink.options, QUERY, 1, sink.run, is_written=True).decision(Producer(sink.options.producer))
    ]
    assert sink.commit(replayed).phase is CommitPhase.DONE
    sink.batch(2)
    sink.shows(0, 1, 2)


def test_row_5_the_batch_is_written_again_all_the_same(sink: Sink) -> None:
    """By tasks that don't know of the decision: theirs is aborted with the next batch."""
    sink.commit(sink.tasks(0), until=CommitPhase.COMMIT)
    assert sink.commit(sink.tasks(0)).phase is CommitPhase.DONE
    sink.shows(0)
    sink.batch(1)
    sink.shows(0, 1)
    assert sink.open_names() == set()


def test_row_6_the_driver_is_away_for_longer_than_the_time_out(sink: Sink) -> None:
    """The only hole: an error that names rows and offsets, until an operator chooses."""
    sink.options = sink.with_options(kafka__transaction__timeout__ms="8000")
    sink.commit(sink.tasks(0), until=CommitPhase.COMMIT)
    wait_until(lambda: not sink.open_names(), 60, "the time-out")
    for _ in range(2):
        with pytest.raises(CohortError) as raised:
            sink.start()
        assert "20 rows are missing" in str(raised.value)
        assert f"{sink.topic}-0 offsets 0 to 4 (5)" in str(raised.value)
        assert "cohort sink reset" in str(raised.value)
    with closing(committer_of(sink.options)) as committer:
        committer.reset(-1)
    assert sink.start() == SinkDecision(QUERY, -1, run=sink.run)
    sink.batch(0)
    sink.shows(0)


def test_row_7_the_driver_dies_before_spark_has_logged_the_batch(sink: Sink) -> None:
    """It is committed once more, and nothing changes."""
    messages = sink.tasks(0)
    for _ in range(3):
        assert sink.commit(messages).phase is CommitPhase.DONE
    sink.shows(0)


@pytest.mark.parametrize(
    "phase",
    [CommitPhase.CLAIM, CommitPhase.READ, CommitPhase.CHECK, CommitPhase.DECIDE, CommitPhase.COMMIT],
    ids=lambda each: each.name,
)
def test_rows_8_and_9_an_old_driver_thaws_beside_a_new_one(sink: Sink, phase: CommitPhase) -> None:
    """Frozen before this phase; the new one writes the batch again, and the next; the old one changes nothing any more."""
    sink.batch(0)
    with closing(committer_of(sink.options)) as old:
        state = run(old, sink.tasks(1), until=phase)
        sink.start()
        sink.batch(1)
        sink.batch(2)
        pending = sink.tasks(3)  # open while the old one goes on
        end = CommitPhase.DONE if phase is CommitPhase.COMMIT else CommitPhase.FAILED
        assert go_on(old, state).phase is end
    assert sink.commit(pending).phase is CommitPhase.DONE
    sink.shows(0, 1, 2, 3)
    assert sink.open_names() == set()


def test_row_9_two_drivers_at_once(sink: Sink) -> None:
    """The older one can decide nothing once the newer has begun, whose tasks may still be at work."""
    older = sink.tasks(0)
    sink.start()
    newer = sink.tasks(0)
    assert sink.commit(older).failure is CommitFailure.OVERTAKEN
    assert sink.commit(newer).phase is CommitPhase.DONE
    sink.shows(0)
    assert sink.open_names() == set()


def test_row_9_the_older_driver_ends_what_it_has_decided(sink: Sink) -> None:
    """Its transactions are committed by both, once."""
    older = sink.tasks(0)
    with closing(committer_of(sink.options)) as old:
        state = run(old, older, until=CommitPhase.COMMIT)
        assert sink.start().batch == 0
        assert go_on(old, state).phase is CommitPhase.DONE
    sink.batch(1)
    sink.shows(0, 1)


def test_row_12_a_checkpoint_that_was_deleted_or_restored(sink: Sink) -> None:
    """Each is refused with what to do, and nothing of it is visible."""
    for batch in range(3):
        sink.batch(batch)
    with (
        pytest.raises(CohortError, match=r"belongs to another query.*cohort sink reset"),
        closing(committer_of(sink.options)) as committer,
    ):
        committer.commit(joined_decision(sink.tasks(0, "query-2")))
    with (
        pytest.raises(CohortError, match=r"behind what sink.*cohort sink reset"),
        closing(committer_of(sink.options)) as committer,
    ):
        committer.commit(joined_decision(sink.tasks(1)))
    sink.shows(0, 1, 2)


def test_row_14_a_time_out_before_the_decision(sink: Sink) -> None:
    """The batch fails before anything is visible, and is written again."""
    sink.options = sink.with_options(kafka__transaction__timeout__ms="4000")
    messages = sink.tasks(0)
    wait_until(lambda: not sink.open_names(), 60, "the time-out")
    assert sink.commit(messages).phase is CommitPhase.FAILED
    sink.batch(0)
    sink.shows(0)


def test_row_11_a_broker_that_is_silent_for_a_while_is_asked_again(
    pair: Cluster, java: WrittenRecords, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which transactions are open all brokers have to say: one that restarts, or stands still, ends no batch."""
    monkeypatch.setattr(transaction_client, "ANSWER_S", 0.5)
    sink = Sink(pair, java, topic)
    messages = sink.tasks(0)
    relay = pair.relays[2]
    release = threading.Timer(2, relay.release)
    with closing(committer_of(sink.options)) as committer:
        state = run(committer, messages, CommitPhase.CHECK)
        relay.hold()
        release.start()
        assert go_on(committer, state).phase is CommitPhase.DONE
    assert not release.is_alive()
    sink.shows(0)


def test_row_11_a_request_that_a_cut_has_held_arrives_behind_the_decision(
    java: WrittenRecords, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """InitProducerId without an answer is sent again by TCP after the cut, and aborts what its id has open: nothing that is decided."""
    with Cluster(1, replicated=True, relayed=(1,)) as broker:  # which asks itself by a listener of its own
        sink, name, relay = Sink(broker, java, topic), f"{topic}/held", broker.relays[1]
        sink.batch(0)
        with monkeypatch.context() as patch:
            patch.setattr(exactly_once, "take_name", lambda *_: name)
            attempt = sink.attempt(1, 0)
            relay.delay()
            attempt.begin()
        attempts = [attempt, sink.attempt(1, 1)]
        messages = [each.write() for each in attempts]
        for each in attempts:
            each.die()
        with (
            closing(committer_of(sink.options)) as committer,
            closing(ClusterClient(sink.options.producer.connection)) as client,
        ):
            transactions = TransactionClient(client, 30)
            state = run(committer, messages, CommitPhase.COMMIT)
            before = transactions.describe((name,))[name].transaction.producer
            relay.release()
            wait_until(lambda: transactions.describe((name,))[name].transaction.producer > before, 30, "what was held")
            assert go_on(committer, state).phase is CommitPhase.DONE
        sink.shows(0, 1)


def test_decisions_have_the_replicas_that_transactions_have(pair: Cluster, java: WrittenRecords, topic: str) -> None:
    """Not the brokers' default, which is one: a broker that dies would take along what is decided."""
    sink = Sink(pair, java, topic)
    sink.options = sink.with_options(sink__state__topic=f"{topic}-state")
    sink.batch(0)
    wait_until(lambda: pair.admin.in_sync(f"{topic}-state") == {0: {1, 2}}, 30, "both brokers to have the topic")


def test_a_clock_that_is_ahead_makes_no_decision_invalid(sink: Sink) -> None:
    """Kafka dates them: a driver whose clock has jumped by two hours decides on."""
    topic = f"{sink.topic}-state"
    sink.options = sink.with_options(sink__state__topic=topic)
    sink.batch(0)
    produce(sink.broker.bootstrap, topic, 1, timestamp_ms=int(time.time() + 7_200) * 1000)
    sink.batch(1)
    sink.shows(0, 1)


@contextmanager
def commit_process(sink: Sink) -> Iterator[subprocess.Popen[str]]:
    """The process that commits the batches of a stream, as the JVM starts it."""
    command = [sys.executable, "-P", "-m", commit_process_module.__name__, str(Path(__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            tell(process, sink.texts())
            yield process
        finally:
            process.kill()


def tell(process: subprocess.Popen[str], what: Any) -> None:
    """A line of its input."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(what) + "\n")
    process.stdin.flush()


def answer_of(process: subprocess.Popen[str], decisions: Sequence[bytes]) -> dict[str, Any]:
    """What it says of a batch."""
    tell(process, [each.decode() for each in decisions])
    assert process.stdout is not None
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


def error_of(process: subprocess.Popen[str], decisions: Sequence[bytes]) -> str:
    """Why it could not be committed."""
    error: str = answer_of(process, decisions)["error"]
    return error


def test_a_process_commits_one_batch_after_another(sink: Sink) -> None:
    """It reads the last decision once; one that is killed is followed by another; an input that ends ends it."""
    with commit_process(sink) as process:
        assert [error_of(process, sink.tasks(batch)) for batch in range(2)] == ["", ""]
        sink.shows(0, 1)
    messages = sink.tasks(2)
    with commit_process(sink) as process:
        assert [error_of(process, messages) for _ in range(2)] == ["", ""]
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0
    sink.shows(0, 1, 2)
    assert sink.open_names() == set()


def test_a_process_counts_transactions(sink: Sink) -> None:
    """Those that it has committed, those of an attempt that it has aborted, and how near the oldest was to its time-out."""
    with commit_process(sink) as process:
        attempt, tasks = sink.tasks(0), sink.tasks(0)
        began_at = time.monotonic()
        answer = answer_of(process, tasks)
        committed = joined_decision(tasks).committables
        assert (answer["committed"], answer["aborted"]) == (len(committed), len(joined_decision(attempt).committables))
        assert 0 < answer["commit_s"] < time.monotonic() - began_at
        assert 0 < answer["open_ratio"] < 0.5
        again = answer_of(process, tasks)
        assert (again["committed"], again["aborted"], again["open_ratio"]) == (len(committed), 0, 0)
    sink.shows(0)


def test_a_process_ends_with_the_first_error(sink: Sink) -> None:
    """The error has its name and what to do; the exit status says that no batch is without an answer."""
    with commit_process(sink) as process:
        assert error_of(process, sink.tasks(0)) == ""
        error = error_of(process, sink.tasks(1, "query-2"))
        assert error.startswith(f"SINK_OF_OTHER_QUERY: sink.id={sink.topic} belongs to another query")
        assert "cohort sink reset" in error
        assert process.wait(30) == 0
    sink.shows(0)


def test_a_process_reads_whole_lines_until_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line may come in parts; half a line when the time is over is nothing that was taken."""
    monkeypatch.setattr(commit_process_module, "IDLE_S", 0.05)
    monkeypatch.setattr(commit_process_module, "CHUNK", 4)
    reads, writes = os.pipe()
    os.write(writes, b"first line\n\nsecond\nhalf a li")
    assert list(commit_process_module.read_lines(reads)) == [b"first line", b"", b"second"]
    os.close(writes)
    assert list(commit_process_module.read_lines(reads)) == []
    os.close(reads)


def test_a_process_starts_without_spark() -> None:
    """PySpark's import would take longer than all the others."""
    words = f"import sys, {commit_process_module.__name__}; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", words], check=False, timeout=60).returncode == 0
