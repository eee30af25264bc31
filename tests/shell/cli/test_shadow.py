"""``cohort shadow``: two readers agree on what is in a broker, of all kinds; where they don't, it is said."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.cli.checkpoint import shadow
from sparkcohort.cli.checkpoint.shadow_ranges import ReadTotals
from sparkcohort.runtime.errors import CohortError
from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.produce import abort, produce, producer, transact
from tests.shell.cli.test_checkpoint import METADATA


def planned(at: Path, topic: str, *ends: dict[str, int], start: dict[str, int] | None = None) -> Path:
    """A checkpoint of ``format("kafka")`` with these batches; ``start`` is where the first one begins."""
    (at / "offsets").mkdir(parents=True, exist_ok=True)
    (at / "metadata").write_text('{"id":"a-query"}')
    for number, each in enumerate(ends):
        (at / "offsets" / str(number)).write_text(f"v1\n{METADATA}\n{json.dumps({topic: each})}")
    if start is not None:
        (at / "sources" / "0").mkdir(parents=True)
        (at / "sources" / "0" / "0").write_text(f"\0v1\n{json.dumps({topic: start})}")
    return at


def fill(broker: Broker, topic: str) -> int:
    """Two partitions: plain, compressed and odd records, one aborted and one committed transaction; how many are committed."""
    broker.admin.create_topic(topic, 2)
    for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        produce(broker.bootstrap, topic, 200, partitions=2, first=100 * number, compression=codec)
    client = producer(broker.bootstrap)
    odd: list[tuple[bytes | None, bytes | None, Any]] = [
        (None, None, None),
        (b"", b"", [("h", None), ("h", b"")]),
        (b"k", b"v" * 100_000, []),
    ]
    for key, value, headers in odd:
        client.produce(topic, value, key, 0, headers=headers)
    assert client.flush(60) == 0
    abort(broker.bootstrap, topic, 30, partition=1)
    transact(broker.bootstrap, topic, 20, partition=1, first=900)
    return 1_023


@pytest.fixture
def filled(broker: Broker, topic: str) -> Broker:
    """The broker with that topic."""
    fill(broker, topic)
    return broker


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("level", "records"), [("read_uncommitted", 1_053), ("read_committed", 1_023)])
def test_two_readers_agree(filled: Broker, topic: str, tmp_path: Path, level: str, records: int) -> None:
    """Batch by batch, from where the query began; with an aborted transaction, a marker at the end, null and empty."""
    ends = [filled.admin.ends(topic)[number] for number in (0, 1)]
    at = planned(
        tmp_path / "checkpoint",
        topic,
        {"0": 120, "1": 7},
        {"0": 120, "1": 510},
        {"0": ends[0], "1": ends[1]},
        start={"0": 0, "1": 0},
    )
    (tmp_path / "client").write_text(f"bootstrap.servers={filled.bootstrap}\nisolation.level={level}\n")
    before = sorted(str(path) for path in at.rglob("*"))
    said = cohort("shadow", str(at), "--command-config", str(tmp_path / "client"), "--output", "json")
    rows = json.loads(said.stdout)
    assert said.returncode == 0, said.stderr
    assert {row["verdict"] for row in rows} == {"equal"}
    assert [(row["batch"], row["partition"], row["from"], row["to"]) for row in rows] == [
        (0, 0, 0, 120),
        (0, 1, 0, 7),
        (1, 1, 7, 510),
        (2, 0, 120, ends[0]),
        (2, 1, 510, ends[1]),
    ]
    assert sum(row["records"] for row in rows) == records
    assert "3 batches; ranges: 5 equal, 0 lost to retention" in said.stderr
    assert sorted(str(path) for path in at.rglob("*")) == before
    assert filled.admin.committed(shadow.GROUP) == {}


def test_what_differs_is_named(filled: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A negative control: a reader that turns one byte of one record is found, with its place; exit status 1."""
    add = ReadTotals.add

    def turned(totals: ReadTotals, offset: int, at_us: int, kind: int, key: Any, value: Any, headers: Any) -> None:
        add(totals, offset, at_us, kind, key, b"?" + value[1:] if offset == 60 and value else value, headers)

    add_batch = shadow._add_batch

    def add_turned(totals: ReadTotals, batch: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReadTotals, "add", turned)
            add_batch(totals, batch)

    monkeypatch.setattr(shadow, "_add_batch", add_turned)
    at = planned(tmp_path / "checkpoint", topic, {"0": 50, "1": 50}, {"0": 50, "1": 90})
    said = cohort("shadow", str(at), "--bootstrap-server", filled.bootstrap, "--output", "csv")
    assert said.returncode == 1
    assert f"{topic}-1 [50, 90) differs: checksums differ" in said.stderr
    assert "batch 0 is left out" in said.stderr
    assert said.stdout.splitlines()[1].startswith(f"1,0,{topic},1,50,90,40,")
    assert said.stdout.rstrip().endswith("differs,checksums differ")


def test_what_retention_took_is_no_difference(filled: Broker, topic: str, tmp_path: Path) -> None:
    """It is told; and where nothing is left to compare, that is no answer."""
    filled.admin.delete_records(topic, {0: 60})
    at = planned(tmp_path / "checkpoint", topic, {"0": 50, "1": 50}, {"0": 70, "1": 70})
    said = cohort("shadow", str(at), "--bootstrap-server", filled.bootstrap)
    assert said.returncode == 0, said.stderr
    assert "lost to retention: the log begins at 60" in said.stderr
    planned(at, topic, {"0": 50}, {"0": 70})
    said = cohort("shadow", str(at), "--bootstrap-server", filled.bootstrap)
    assert (said.returncode, said.stderr.splitlines()[-1][:28]) == (1, "cohort: nothing was compared")


@pytest.mark.timeout(240)
def test_it_follows(filled: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that come meanwhile are compared as they come; a partition that begins in one is left out."""
    at = planned(tmp_path / "checkpoint", topic, {"0": 50}, {"0": 70})
    more = threading.Event()
    tell = shadow._print_batch

    def told(number: int, rows: Any) -> None:
        tell(number, rows)
        planned(at, topic, {"0": 50}, {"0": 70}, {"0": 90, "1": 10}, {"0": 90, "1": 30})
        (at / "offsets" / "0").unlink()  # as Spark does with each new batch
        more.set()

    monkeypatch.setattr(shadow, "_print_batch", told)
    said = cohort("shadow", str(at), "--bootstrap-server", filled.bootstrap, "--follow", "--batches", "3")
    assert more.is_set()
    assert said.returncode == 0, said.stderr
    assert f"batch 2: {topic}-1 begins in it; left out" in said.stderr
    assert [line.split()[0] for line in said.stdout.splitlines()[1:]] == ["1", "2", "3"]


def test_what_can_not_be_read_is_no_difference(
    filled: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranges of the batch stand in the table, with what went wrong; exit status 1."""

    def read(*_: Any) -> Any:
        raise CohortError("its leader is away")

    monkeypatch.setattr(shadow.TwoReaders, "cohort_totals", read)
    at = planned(tmp_path / "checkpoint", topic, {"0": 50, "1": 50}, {"0": 70, "1": 70}, start={"0": 50, "1": 10})
    said = cohort("shadow", str(at), "--bootstrap-server", filled.bootstrap, "--output", "json")
    assert said.returncode == 1
    assert [(row["partition"], row["verdict"], row["why"]) for row in json.loads(said.stdout)] == [
        (1, "not read", "its leader is away"),
        (0, "not read", "its leader is away"),
        (1, "not read", "its leader is away"),
    ]


@pytest.mark.parametrize(
    ("arguments", "words", "status"),
    [
        (("/nowhere", "--bootstrap-server", "127.0.0.1:1"), "--bootstrap-server 127.0.0.1:1", 1),
        (("/nowhere",), "--bootstrap-server", 2),
        (("/nowhere", "--bootstrap-server", "127.0.0.1:1", "--last", "0"), "--last", 2),
    ],
)
def test_what_can_not_be_read_is_one_line(arguments: tuple[str, ...], words: str, status: int) -> None:
    """With the exit status that the page names."""
    said = cohort("shadow", *arguments)
    assert (said.returncode, words in said.stderr) == (status, True)


def test_sums_tell_records_apart() -> None:
    """Null from empty, a key from a value, an order from another."""
    plain: Any = (1, 2, 0, b"k", b"v", [])
    others: list[Any] = [
        (1, 2, 0, None, b"v", []),
        (1, 2, 0, b"", b"kv", []),
        (1, 3, 0, b"k", b"v", []),
        (1, 2, 1, b"k", b"v", []),
    ]
    others += [(1, 2, 0, b"k", b"v", [("a", b"")]), (1, 2, 0, b"k", b"v", [("a", None)]), (2, 2, 0, b"k", b"v", [])]
    sums = set()
    for row in (plain, *others):
        totals = ReadTotals()
        totals.add(*row)
        sums.add(totals.checksum)
    assert len(sums) == 1 + len(others)
    there, back = ReadTotals(), ReadTotals()
    for row in (plain, others[-1]):
        there.add(*row)
    for row in (others[-1], plain):
        back.add(*row)
    assert there.differences(back) == ["first offset 1 and 2", "last offset 2 and 1", "checksums differ"]
