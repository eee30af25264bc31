"""``cohort sink`` on a real broker: what it shows, commits and forgets of an exactly-once sink whose driver has died at a step."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from sparkcohort.cli.sink import COLUMNS, DRY_RUN
from sparkcohort.runtime.kafka.batch_commit import CommitPhase
from sparkcohort.runtime.kafka.decision import SinkDecision
from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.exactly_once_sink import QUERY, ROWS, TASKS, Sink, committer_of
from tests.kit.written_records import WrittenRecords

COMMANDS = ("show", "finish", "reset")


@pytest.fixture(scope="module")
def java() -> Iterator[WrittenRecords]:
    """Kafka's consumer."""
    with WrittenRecords() as reader:
        yield reader


@pytest.fixture
def sink(broker: Broker, java: WrittenRecords, topic: str) -> Sink:
    """A sink that has written nothing."""
    return Sink(broker, java, topic)


def ask(sink: Sink, command: str, *more: str) -> subprocess.CompletedProcess[str]:
    """The command about this sink."""
    return cohort("sink", command, "--sink-id", sink.topic, "--bootstrap-server", sink.broker.bootstrap, *more)


def states(sink: Sink) -> list[tuple[object, ...]]:
    """Of each transaction that is shown: its state, batch and rows."""
    shown = ask(sink, "show", "--output", "json")
    assert shown.returncode == 0, shown.stderr
    return [(row["state"], row["batch"], row["rows"]) for row in json.loads(shown.stdout)]


def last_of(sink: Sink) -> SinkDecision | None:
    """What the sink has decided last."""
    committer = committer_of(sink.options)
    try:
        return committer.last_decision()
    finally:
        committer.close()


def test_nothing_is_decided_yet(sink: Sink) -> None:
    """Before a query's first start, and behind it; each command says so, with status 0."""
    for _ in range(2):
        for command in COMMANDS:
            answer = ask(sink, command)
            assert (answer.returncode, answer.stderr.count("\n")) == (0, 1)
            assert f"sink {sink.topic} has decided nothing" in answer.stderr
        sink.start()
    assert states(sink) == []


def test_a_topic_that_nobody_has_made(sink: Sink) -> None:
    """What only looks says that nothing is decided, and makes no topic."""
    for command in ("show", "reset"):
        answer = ask(sink, command, "--sink-state-topic", f"{sink.topic}-state")
        assert (answer.returncode, answer.stderr.count("\n")) == (0, 1)
        assert "has decided nothing" in answer.stderr
    assert f"{sink.topic}-state" not in sink.broker.admin.topics()


def test_a_batch_that_is_committed(sink: Sink) -> None:
    """Its transactions with their rows and offsets, none open; to finish it changes nothing."""
    sink.batch(0)
    shown = ask(sink, "show")
    assert shown.returncode == 0
    assert shown.stderr == f"sink {sink.topic}: batch 0 of query {QUERY} is the last that is decided\n"
    header, *rows = shown.stdout.splitlines()
    assert tuple(header.split()) == COLUMNS
    assert len(rows) == TASKS
    assert all(f"{sink.topic}-0:" in row and f"{sink.topic}-1:" in row for row in rows)
    assert states(sink) == [("decided", 0, ROWS)] * TASKS
    finished = ask(sink, "finish")
    assert (finished.returncode, finished.stdout) == (0, "")
    assert finished.stderr == f"sink {sink.topic}: batch 0 of query {QUERY} is committed\n"
    sink.shows(0)


def test_a_driver_that_died_behind_its_decision(sink: Sink) -> None:
    """What is decided and open is shown with the seconds that are left; finish commits it, and the query goes on."""
    sink.batch(0)
    sink.commit(sink.tasks(1), until=CommitPhase.COMMIT)
    shown = ask(sink, "show", "--output", "json")
    assert "cohort sink finish commits them" in shown.stderr
    rows = json.loads(shown.stdout)
    assert [(row["state"], row["batch"], row["rows"]) for row in rows] == [("decided, open", 1, ROWS)] * TASKS
    assert all(0 < row["time_left_s"] <= 900 for row in rows)
    sink.shows(0)
    assert ask(sink, "finish").returncode == 0
    sink.shows(0, 1)
    assert states(sink) == [("decided", 1, ROWS)] * TASKS
    sink.start()
    sink.batch(2)
    sink.shows(0, 1, 2)


def test_what_nobody_has_decided_is_aborted(sink: Sink) -> None:
    """Open transactions of no decided batch are shown; finish aborts them, so that readers go on."""
    sink.batch(0)
    sink.tasks(1)
    assert sorted(states(sink), key=str) == [("decided", 0, ROWS)] * TASKS + [("open", None, None)] * TASKS
    finished = ask(sink, "finish")
    assert finished.returncode == 0
    assert f"{TASKS} open transactions of no decided batch ended with an abort" in finished.stderr
    assert sink.open_names() == set()
    sink.shows(0)


def test_a_reset_changes_nothing_without_execute(sink: Sink) -> None:
    """It says what would be done."""
    sink.batch(0)
    before = last_of(sink)
    for more in ((), ("--batch", "-1")):
        answer = ask(sink, "reset", *more)
        assert (answer.returncode, answer.stdout) == (0, "")
        assert f"batch 0 of query {QUERY} was decided; then it" in answer.stderr
        assert answer.stderr.endswith(f"{DRY_RUN}\n")
    assert last_of(sink) == before


def test_a_reset_to_a_batch(sink: Sink) -> None:
    """The same query writes the batch behind it, once more where it is there already."""
    sink.batch(0)
    sink.batch(1)
    answer = ask(sink, "reset", "--batch", "0", "--execute")
    assert answer.returncode == 0
    assert answer.stderr.endswith("now it counts batch 0 as the last that is written\n")
    last = last_of(sink)
    assert last is not None
    assert (last.query, last.batch, last.committables) == (QUERY, 0, ())
    sink.start()
    assert sink.commit(sink.tasks(1)).phase is CommitPhase.DONE
    assert states(sink) == [("decided", 1, ROWS)] * TASKS


def test_a_sink_that_is_forgotten(sink: Sink) -> None:
    """Another query may begin."""
    sink.batch(0)
    answer = ask(sink, "reset", "--execute")
    assert answer.returncode == 0
    assert answer.stderr.endswith("now it is forgotten, and any query may begin\n")
    assert last_of(sink) is None
    sink.start()
    assert sink.commit(sink.tasks(1, "query-2")).phase is CommitPhase.DONE
    sink.shows(0, 1)


def test_a_driver_that_runs_while_its_sink_is_reset(sink: Sink) -> None:
    """It can decide nothing any more."""
    sink.batch(0)
    messages = sink.tasks(1)
    assert ask(sink, "reset", "--batch", "0", "--execute").returncode == 0
    assert sink.commit(messages).phase is CommitPhase.FAILED
    sink.shows(0)


@pytest.mark.parametrize("command", COMMANDS)
def test_mistakes_are_one_line(command: str) -> None:
    """Exit status 2, before a broker is asked."""
    servers, sink_id = ("--bootstrap-server", "localhost:1"), ("--sink-id", "s")
    for wrong, words in (
        (servers, "--sink-id"),
        (sink_id, "give --bootstrap-server"),
        ((*servers, *sink_id, "--batch", "-2"), "--batch"),
        ((*servers, *sink_id, "--command-config", "/nowhere"), "/nowhere"),
    ):
        answer = cohort("sink", command, *wrong)
        assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (2, "", 1), wrong
        assert words in answer.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str) -> None:
    """And the exit status."""
    answer = cohort("sink", command, "--help")
    assert answer.returncode == 0
    assert "Examples:" in answer.stdout
    assert f"cohort sink {command} --sink-id" in answer.stdout
    assert "Exit status:" in answer.stdout
    assert "--sink-state-topic" in answer.stdout
