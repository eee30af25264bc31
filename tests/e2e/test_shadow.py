"""``cohort shadow`` beside a running query: what it says of each batch is what Spark's sources delivered, and it leaves nothing behind."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sparkcohort import ProgressListener
from sparkcohort.cli.checkpoint import shadow
from sparkcohort.cli.checkpoint.shadow_ranges import ReadTotals
from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.produce import produce
from tests.kit.streams import ASAP, FORMS, PLAIN_COLUMNS, Stream, options
from tests.kit.waiting import wait_until
from tests.shell.cli.test_shadow import fill

pytestmark = pytest.mark.thorough("a query that is followed, on both formats")

SOON_S = 90
MORE = 3
"""Batches that come while the command follows; each has so many records."""
RECORDS = 40
Files = dict[str, tuple[int, int, str]]


def timed(stream: DataFrame) -> DataFrame:
    """With the timestamp as a number: as a Python value it is of the machine's time zone."""
    return stream.selectExpr("*", "unix_micros(timestamp) AS at_us")


def delivered(stream: Stream) -> dict[tuple[int, int], ReadTotals]:
    """What Spark delivered of each batch and partition, summed up as the command sums up, in the order in which it came."""
    found: dict[tuple[int, int], ReadTotals] = defaultdict(ReadTotals)
    for number, rows in sorted(stream.batches.items()):
        for row in rows:
            key, value = (None if part is None else bytes(part) for part in (row.key, row.value))
            headers = [(each.key, None if each.value is None else bytes(each.value)) for each in row.headers or ()]
            found[number, row.partition].add(row.offset, row.at_us, row.timestampType, key, value, headers)
    return found


def files(folder: Path) -> Files:
    """All that is there: when it was written, which file it is, and what is in it."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            path.stat().st_ino,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in [folder, *folder.rglob("*")]
    }


def group_of(broker: Broker, group: str) -> tuple[Any, ...]:
    """Where a group stands, and who is in it."""
    members = sorted((each.member_id, each.client_id) for each in broker.admin.members(group))
    return broker.admin.committed(group), broker.admin.group_state(group), members


def changed(before: Files, after: Files) -> set[str]:
    """Files, not folders, that are gone, or written again."""
    return {name for name, about in before.items() if about[2] and after.get(name) != about}


def reported(stream: Stream, topic: str) -> dict[tuple[int, int], int]:
    """Where each batch ends in each partition, as Spark itself reports it."""
    found = {}
    for progress in stream.query.recentProgress:
        if progress["numInputRows"]:
            ends = json.loads(progress["sources"][0]["endOffset"])[topic]
            found.update({(progress["batchId"], int(partition)): end for partition, end in ends.items()})
    return found


def idle(stream: Stream, records: int, checkpoint: Path) -> int:
    """Wait until all is delivered and nothing is written any more; the last batch."""
    stream.wait_for_rows(records, SOON_S)
    last = max(stream.batches)
    # Spark reports a batch when its file in commits/ is written.
    wait_until(lambda: stream.query.lastProgress and stream.query.lastProgress["batchId"] >= last, SOON_S, "a report")
    assert {path.name for path in (checkpoint / "commits").glob("[0-9]*")} == {str(each) for each in range(last + 1)}
    return last


def source(broker: Broker, topic: str, form: str) -> dict[str, str]:
    """Small batches of all columns; Spark's own source with a group, which it never commits for: so that there is something to change."""
    given = {"maxOffsetsPerTrigger": 400, "includeHeaders": "true", "kafka__isolation__level": "read_committed"}
    if form == "kafka":
        broker.admin.commit(topic, topic, {0: 5, 1: 7})
        given["kafka__group__id"] = topic
    return options(broker, topic, **given)


def check(rows: list[dict[str, Any]], stream: Stream, topic: str, first: int) -> None:
    """Every range of every batch from ``first`` on: its ends by Spark's report, and the sums of what Spark delivered."""
    ends, sums = reported(stream, topic), delivered(stream)
    assert {row["verdict"] for row in rows} == {"equal"}
    told = {(row["batch"], row["partition"]): row for row in rows}
    last = max(row["batch"] for row in rows)
    assert told.keys() >= {at for at in sums if first <= at[0] <= last}
    for (batch, partition), row in told.items():
        got = sums[batch, partition]
        assert (row["from"], row["to"]) == (ends.get((batch - 1, partition), 0), ends[batch, partition])
        assert row["from"] <= got.first <= got.last < row["to"]
        assert (row["records"], row["bytes"], row["crc32"]) == (got.records, got.size, f"{got.checksum:08x}")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("form", FORMS)
def test_it_says_what_a_running_query_delivers_and_leaves_nothing_behind(
    spark: SparkSession,
    listener: ProgressListener,
    broker: Broker,
    topic: str,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
) -> None:
    """Of each batch and partition, before it and meanwhile; no byte and no time of the checkpoint changes, no group comes, none moves."""
    records, made = fill(broker, topic), 0
    conf = checkpoint.with_name("client")
    conf.write_text(f"bootstrap.servers={broker.bootstrap}\nisolation.level=read_committed\n")
    command = ("shadow", str(checkpoint), "--command-config", str(conf), "--output", "json")
    columns = (*PLAIN_COLUMNS, "timestampType", "headers", "at_us")
    given, tell = source(broker, topic, form), shadow._print_progress

    def told(line: Any, rows: Any) -> None:
        nonlocal made
        tell(line, rows)
        if line.batch >= last and made < MORE:
            produce(broker.bootstrap, topic, RECORDS, partitions=2, first=1_000 + RECORDS * made, headers=[("n", b"1")])
            made += 1

    with Stream(spark, given, checkpoint, form=form, trigger=ASAP, columns=columns, transform=timed) as stream:
        last = idle(stream, records, checkpoint)
        if form == "cohort":
            ends = {(topic, number): end for number, end in broker.admin.ends(topic).items()}
            wait_until(lambda: broker.admin.committed(topic) == ends, SOON_S, "the last batch's commit")
        before, group, groups = files(checkpoint), group_of(broker, topic), broker.admin.groups()
        still = cohort(*command)
        assert still.returncode == 0, still.stderr
        assert (files(checkpoint), group_of(broker, topic)) == (before, group)
        compared = len({row["batch"] for row in json.loads(still.stdout)})
        monkeypatch.setattr(shadow, "_print_progress", told)
        followed = cohort(*command, "--follow", "--batches", str(compared + MORE))
        assert (followed.returncode, stream.query.isActive) == (0, True), followed.stderr
        end = idle(stream, records + MORE * RECORDS, checkpoint)
        after = files(checkpoint)
        assert broker.admin.groups() == groups
        check(json.loads(followed.stdout), stream, topic, first=int(form == "cohort"))
    assert changed(before, after) == set()
    batches = {f"{log}/{number}" for log in ("offsets", "commits") for number in range(last + 1, end + 1)}
    assert {name for name in after.keys() - before.keys() if not name.endswith(".crc")} == batches
    assert json.loads(followed.stdout)[: len(json.loads(still.stdout))] == json.loads(still.stdout)
