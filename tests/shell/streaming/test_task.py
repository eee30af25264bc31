"""A task left alone: by its agent it goes on by itself, for a coordinator that is silent it waits, one that is gone ends it."""

from __future__ import annotations

import logging
import queue
import socket
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.calls import ClaimReply, encode
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.task_client import TaskClient
from sparkcohort.runtime.shell.agent.task_frames import Served, address
from sparkcohort.runtime.shell.kafka.fetch import arrow_rows
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.flight import GroupServer
from sparkcohort.runtime.shell.rpc.log_lines import GROUP, OneLine
from sparkcohort.runtime.shell.rpc.tls import Credentials
from sparkcohort.runtime.values.columns import KAFKA_ROW
from sparkcohort.streaming import task
from sparkcohort.streaming.slot_reader import SlotPartition
from sparkcohort.streaming.task import _SlotClient, _Tally
from tests.kit.local_server import new_server
from tests.kit.proxy import SilentProxy
from tests.kit.relay import Relay
from tests.kit.waiting import wait_until

TOKEN = "token-of-this-run"
RANGES = [Range("t", 0, 100, 200), Range("t", 1, 5, 15), Range("t", 2, 0, 50)]


def batch_of(*spans: Range) -> pa.RecordBatch:
    """A row for each offset."""
    rows = [
        {"key": None, "value": b"v", "topic": wanted.topic, "partition": wanted.partition, "offset": offset}
        for wanted in spans
        for offset in range(wanted.start, wanted.end)
    ]
    return pa.RecordBatch.from_pylist(rows, arrow_rows.schema(KAFKA_ROW))


class Dying:
    """Serves some steps, then breaks when it is to: its connection ends as that of a killed agent does."""

    def __init__(self, steps: Sequence[Served]) -> None:
        self._steps = steps
        self.may_die = threading.Event()

    def serve(self, *_: Any, **__: Any) -> Iterator[Served]:
        """The steps, then nothing more."""
        yield from self._steps
        assert self.may_die.wait(30)
        raise ConnectionError("the agent dies")


STEPS = [
    Served([(0, 140)], batch_of(Range("t", 0, 100, 140)), sizes=[40]),
    Served([(0, 150), (1, 15)], batch_of(Range("t", 0, 140, 150), Range("t", 1, 5, 15)), sizes=[10, 20]),
    Served([(2, 20)]),  # a gap: no row of it is visible
]


@pytest.mark.parametrize("steps", range(4))
def test_nothing_is_read_twice_after_its_agent_died(steps: int) -> None:
    """What is left begins where each range stood: with what was yielded it is every offset, and none twice."""
    name = f"cohort-test-{uuid.uuid4().hex}"
    agent = Dying(STEPS[:steps])
    server = new_server(name, TOKEN, agent)
    server.start()
    options = parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g"})
    run = Run("run", "127.0.0.1", 1, Credentials(b"", b"", b"", TOKEN))
    desk, tally, rows = _SlotClient(options, SlotPartition(run, "plan", 0, 10.0)), _Tally(), list[tuple[int, int]]()
    desk._agent = TaskClient(name, TOKEN, 30)
    try:
        with closing(desk.from_agent(ClaimReply(planned_starts=(100, 5, 0), sequence=1), RANGES, tally)) as pieces:
            for _ in range(min(steps, 2)):
                batch = next(pieces)
                rows += zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
            agent.may_die.set()
            with pytest.raises(StopIteration) as over:
                next(pieces)
            left: list[Range] = over.value.value
    finally:
        desk.close()
        server.close()
    assert len(rows) == [0, 40, 60, 60][steps]
    begins = {each.partition: each.start for each in left}
    assert begins.pop(2) in ([0, 20] if steps == 3 else [0])  # an agent that dies may take with it what came last
    assert begins == [{0: 100, 1: 5}, {0: 140, 1: 5}, {0: 150}, {0: 150}][steps]
    assert [each.end for each in left] == [each.end for each in RANGES if each.partition in {2, *begins}]
    assert (tally.agent[0], tally.timed_out) == (len(rows), True)
    assert tally.agent[1] == sum(tally.sizes.values()) == [0, 40, 70, 70][steps]
    assert tally.sizes.get(TopicPartition("t", 1), 0) == [0, 0, 20, 20][steps]


def test_a_tasks_lines_are_of_its_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody has set logging up in its worker, and the worker has served another query."""

    def end(*_: object) -> None:
        raise CohortError("enough")

    ours = logging.getLogger("sparkcohort")
    for each in (ours, logging.getLogger()):
        monkeypatch.setattr(each, "handlers", [])
    monkeypatch.setattr(ours, "level", ours.level)
    monkeypatch.setattr(task, "check_session", end)
    for group in ("g", "h"):
        options = parse({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": group})
        slot = SlotPartition(Run("run", "127.0.0.1", 1, Credentials(b"", b"", b"", TOKEN)), "plan", 0, 10.0)
        with pytest.raises(CohortError, match="enough"):
            next(task.read_slot(options, slot))
        (handler,) = ours.handlers
        assert isinstance(handler.formatter, OneLine)
        assert GROUP.get() == group
    GROUP.set("")


def _claiming(port: int, token: Credentials, session_timeout_ms: int) -> _SlotClient:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g"}
    options = parse({**given, "session.timeout.ms": str(session_timeout_ms)})
    return _SlotClient(options, SlotPartition(Run("run", "127.0.0.1", port, token), "plan", 0, 10.0))


def test_a_coordinator_that_is_silent_is_waited_for() -> None:
    """A frozen driver, or a cut network, is borne within the session: the claim is answered when it is over."""
    authority, reply = new_authority(), ClaimReply(ranges=tuple(RANGES), planned_starts=(100, 5, 0))
    server = GroupServer(
        authority, {"Claim": lambda _: encode(reply)}, lambda _: queue.SimpleQueue(), lambda _: None, host="127.0.0.1"
    )
    relay = Relay("127.0.0.1", server.port)
    relay.hold()
    desk, claimed = _claiming(relay.port, authority.client, 600_000), list[ClaimReply]()
    claiming = threading.Thread(target=lambda: claimed.append(desk.claim()), daemon=True)
    try:
        claiming.start()
        wait_until(lambda: relay.accepted >= 3, 120, "a second try to connect, behind a look whether it is refused")
        relay.release()
        claiming.join(60)
        assert claimed == [reply]
    finally:
        desk.close()
        relay.close()
        server.stop(5)


def test_a_coordinator_that_is_gone_is_not_waited_for() -> None:
    """A refused connection is an answer: the task ends at once, however long the session is, and says what else it may be."""
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    desk = _claiming(port, new_authority().client, 1_800_000)
    with closing(desk), pytest.raises(CohortError, match=r"no answer from the coordinator.*coordinator\.port"):
        desk.claim()


@pytest.mark.parametrize("is_there", [True, False])
def test_an_agent_that_does_not_answer_a_claim_is_lost(is_there: bool) -> None:
    """The coordinator answers it; where no agent is yet, none was asked."""
    authority, reply, name = (
        new_authority(),
        ClaimReply(ranges=tuple(RANGES), planned_starts=(100, 5, 0)),
        uuid.uuid4().hex,
    )
    server = GroupServer(
        authority, {"Claim": lambda _: encode(reply)}, lambda _: queue.SimpleQueue(), lambda _: None, host="127.0.0.1"
    )
    desk = _claiming(server.port, authority.client, 600_000)
    desk._agent, desk._claims_through_agent = TaskClient(name, TOKEN, 0.2), True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as frozen:
        if is_there:
            frozen.bind(address(name))
            frozen.listen()
        try:
            assert desk.claim() == reply
            assert desk.is_agent_lost == is_there
        finally:
            desk.close()
            server.stop(5)


def test_a_silent_coordinator_is_not_waited_for_beyond_the_session() -> None:
    """A wait has a limit: what is silent for longer than a session ends the task."""
    with SilentProxy() as silent:
        desk = _claiming(silent.port, new_authority().client, 3_500)
        with closing(desk), pytest.raises(CohortError, match="no answer from the coordinator"):
            desk.claim()
        assert silent.was_asked()


def test_what_was_delivered_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that is only slow counts it when it comes to it; no core waits for that, however long the session is."""
    for name in ("REPORT_S", "CALL_TIMEOUT_S", "CALL_PAUSE_S"):
        monkeypatch.setattr(task, name, 0.5)
    authority, heard, awake = new_authority(), list[bytes](), threading.Event()

    def count(body: bytes) -> bytes:
        heard.append(body)
        assert awake.wait(60)
        return b""

    server = GroupServer(
        authority, {"Delivered": count}, lambda _: queue.SimpleQueue(), lambda _: None, host="127.0.0.1"
    )
    desk = _claiming(server.port, authority.client, 600_000)
    reporting = threading.Thread(target=desk.report, args=(RANGES, _Tally()), daemon=True)
    try:
        reporting.start()
        reporting.join(20)
        assert (reporting.is_alive(), len(heard)) == (False, 1)
    finally:
        awake.set()
        desk.close()
        server.stop(5)
