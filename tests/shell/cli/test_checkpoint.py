"""``cohort checkpoint`` on folders as Spark leaves them, wherever they are, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkcohort.cli.checkpoint import folder, subcommands
from sparkcohort.cli.checkpoint.folder import Folder
from sparkcohort.cli.checkpoint.repairs import mend_files
from sparkcohort.runtime.errors import CohortError
from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.produce import produce

COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795472596548,"conf":{"spark.sql.shuffle.partitions":"2"}}'


def made(at: Path, topic: str = "t") -> Path:
    """A checkpoint of two sources, one of which reads no Kafka, whose first batches Spark has removed; batch 8 is in flight."""
    for name in ("offsets", "commits"):
        (at / name).mkdir(parents=True)
    for number in range(5, 9):
        ends = json.dumps({topic: {"0": 10 * number, "1": number}}, separators=(",", ":"))
        (at / "offsets" / str(number)).write_text(f"v1\n{METADATA}\n{ends}\n{number}")
        (at / "offsets" / f".{number}.crc").write_bytes(b"crc\0")
    for number in range(5, 8):
        (at / "commits" / str(number)).write_text(COMMIT)
    (at / "offsets" / ".9.0a1b.tmp").write_text("half")
    (at / "metadata").write_text('{"id":"a-query"}')
    return at


def test_what_a_checkpoint_has(tmp_path: Path) -> None:
    """Batches, the one in flight, what Spark removed, and a source that isn't Kafka's; as a path and as a URI."""
    at = made(tmp_path / "a checkpoint")
    for place in (str(at), at.as_uri()):
        said = cohort("checkpoint", "show", place)
        assert (said.returncode, said.stderr) == (0, "")
        assert "batch 8 is in flight" in said.stdout
        assert "batches before 5 were removed by Spark" in said.stdout
        assert "query id a-query; no state" in said.stdout
    rows = json.loads(cohort("checkpoint", "show", str(at), "--output", "json").stdout)
    assert [(row["batch"], row["state"], row["format"], row["records"]) for row in rows] == [
        (5, "committed", "kafka,other", None),
        (6, "committed", "kafka,other", 11),
        (7, "committed", "kafka,other", 11),
        (8, "in flight", "kafka,other", 11),
    ]
    text = cohort("checkpoint", "show", str(at), "--offsets", "--output", "csv").stdout
    assert text.splitlines()[1:] == ["7,0,kafka,t,0,70,", "7,0,kafka,t,1,7,", "8,0,kafka,t,0,80,", "8,0,kafka,t,1,8,"]


def test_sources_by_name(tmp_path: Path) -> None:
    """Spark 4.2's offset log, in which they change places, begin and end: as v1, with names for numbers."""
    at = made(tmp_path / "named")
    lines = [
        'orders:{"t":{"0":50}}',
        'refunds:{"u":{"0":7}}',
        'orders:{"t":{"0":70}}',
        "files:-",
        'refunds:{"u":{"0":9}}',
    ]
    for number, kept in ((6, lines[:1]), (7, lines[1:3]), (8, lines[2:])):
        (at / "offsets" / str(number)).write_text("\n".join(["v2", METADATA, *kept]))
    rows = json.loads(cohort("checkpoint", "show", str(at), "--output", "json", "--last", "3").stdout)
    assert [(row["batch"], row["format"], row["sources"], row["records"]) for row in rows] == [
        (6, "kafka", 1, None),
        (7, "kafka,kafka", 2, None),
        (8, "kafka,other,kafka", 3, None),
    ]
    text = cohort("checkpoint", "show", str(at), "--offsets", "--output", "csv").stdout
    assert text.splitlines()[3:] == ["8,orders,kafka,t,0,70,", "8,refunds,kafka,u,0,9,"]
    assert "nothing to repair" in cohort("checkpoint", "repair", str(at)).stderr


def test_a_checkpoint_does_not_steer_the_terminal(tmp_path: Path) -> None:
    """Anybody may have written it: its id, its settings, its topics, and what its errors quote."""
    at = made(tmp_path / "checkpoint", "t\x1b[2J")
    (at / "metadata").write_text('{"id":"\\u001b]0;x\\u0007"}')
    (at / "offsets" / "8").write_text(METADATA.join(["v1\n", '\n{"\\u001b[2J":{"0":1},"\\u001b[2J":{}}']))
    for options in ((), ("--offsets",), ("--output", "csv"), ("--output", "json")):
        said = cohort("checkpoint", "show", str(at), *options)
        assert (said.returncode, "\x1b" in said.stdout + said.stderr, "is there twice" in said.stderr) == (
            1,
            False,
            True,
        )


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("/nowhere/at/all", "is no checkpoint"),
        ("nosuch://host/x", "fsspec"),
        ("", "DIR is empty"),
        ("S3A://user:hunter2@bucket/x?endpoint_override=127.0.0.1:1&scheme=http", "S3A://***@bucket/x: "),
        ("s3://user:ab/hunter2@bucket/x", "s3://***@bucket/x can't be opened: write / as %2F"),
        ("s3://user:a?b/hunter2@bucket/x", "s3://***@bucket/x can't be opened: write / as %2F"),
        ("abfs-x://u:hunter2@h/p", "abfs-x://***@h/p"),
    ],
)
def test_what_is_no_checkpoint_is_one_line(place: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With exit status 1, and without the keys that stand in the URI."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(CohortError) as raised:
        Folder(place)
    assert words in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("s3://bucket/a@b/c:d@e", "s3://bucket/a@b/c:d@e"),
        ("hdfs://nn:8020/a", "hdfs://nn:8020/a"),
        ("file:///srv/me@work/x", "file:///srv/me@work/x"),
        ("/data/a:b://c@d", "/data/a:b://c@d"),
        ("abfss://where@h/p?sas", "abfss://***@h/p"),
        ("s3://u:p@b@c/x", "s3://***@c/x"),
    ],
)
def test_a_place_is_shown_without_its_login(place: str, shown: str) -> None:
    """And whole where it has none."""
    assert folder._without_login(place) == shown


def test_what_a_restart_would_read(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Of a batch in flight and what came after; then retention passes its start, and the exit status is 1."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 200, partitions=2)
    at = made(tmp_path / "checkpoint", topic)
    broker.admin.commit(topic, topic, {0: 60, 1: 9})
    asked = ("checkpoint", "diff", str(at), "--bootstrap-server", broker.bootstrap, "--group", topic)
    said = cohort(*asked, "--output", "json")
    assert said.returncode == 0
    first, second = json.loads(said.stdout)
    assert (first["checkpoint"], first["planned"], first["log_end"], first["records"]) == (70, 80, 100, 30)
    assert (first["group"], second["group"]) == ("behind by 10", "ahead by 2")
    assert "the checkpoint wins" in second["meaning"]
    assert "123 offsets of 2 partitions to read by now, first the 11" in cohort(*asked).stdout
    broker.admin.delete_records(topic, {0: 85})
    said = cohort(*asked)
    assert said.returncode == 1
    assert f"lost to retention: {topic}-0; 15 offsets are gone" in said.stderr


def test_a_query_that_runs_is_not_accused(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch ends, is committed to the group, and the next one is planned, after the group was asked: the log is read last."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 160, partitions=2)
    at = made(tmp_path / "checkpoint", topic)
    broker.admin.commit(topic, topic, {0: 70, 1: 7})

    def go_on(place: str) -> Folder:
        produce(broker.bootstrap, topic, 40, partitions=2, first=80)
        (at / "commits" / "8").write_text(COMMIT)
        (at / "offsets" / "9").write_text((at / "offsets" / "8").read_text().replace('"0":80,"1":8', '"0":100,"1":100'))
        broker.admin.commit(topic, topic, {0: 80, 1: 8})
        return Folder(place)

    monkeypatch.setattr(subcommands, "Folder", go_on)
    options = ("--bootstrap-server", broker.bootstrap, "--group", topic, "--output", "json")
    rows = json.loads(cohort("checkpoint", "diff", str(at), *options).stdout)
    assert [(row["checkpoint"], row["planned"], row["group"], row["verdict"]) for row in rows] == [
        (80, 100, "behind by 10", "ok"),
        (8, 100, "behind by 1", "ok"),
    ]


def test_a_batch_that_ends_meanwhile_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is planned and committed between the two logs' listings: no commit is without its offsets."""
    at, list_entries = made(tmp_path / "checkpoint"), Folder._entries

    def go_on(folder: Folder, name: str) -> object:
        entries = list_entries(folder, name)
        (at / "offsets" / "9").write_text((at / "offsets" / "8").read_text())
        (at / "commits" / "9").write_text(COMMIT)
        return entries

    monkeypatch.setattr(Folder, "_entries", go_on)
    assert mend_files(Folder(str(at)).files()) == []


def test_a_state_is_not_made_inexact_unasked(tmp_path: Path) -> None:
    """A batch that was done runs again, and the state store has it already: only with --accept-loss, and its files stay."""
    at = made(tmp_path / "checkpoint")
    (at / "commits" / "8").write_text(COMMIT)
    (at / "offsets" / "8").write_text("")
    state = at / "state" / "0" / "0" / "9.delta"
    state.parent.mkdir(parents=True)
    state.write_bytes(b"state")
    said = cohort("checkpoint", "repair", str(at), "--execute")
    assert (said.returncode, "--accept-loss" in said.stderr) == (1, True)
    assert (at / "commits" / "8").exists()
    assert cohort("checkpoint", "repair", str(at), "--execute", "--accept-loss").returncode == 0
    assert not (at / "commits" / "8").exists()
    assert state.read_bytes() == b"state"
