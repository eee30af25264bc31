"""Spark's logs as text: read, compared with the brokers', and repaired."""

from __future__ import annotations

import json

import pytest

from sparkcohort.cli.checkpoint import logs, positions
from sparkcohort.cli.checkpoint.logs import BrokenLog, KafkaEnds, UnknownVersion
from sparkcohort.cli.checkpoint.positions import (
    EXPIRED,
    MISSING,
    NEW,
    OK,
    PAST_END,
    RECREATED,
    UNKNOWN,
    KafkaPositions,
    RestartPlan,
    compare,
)
from sparkcohort.cli.checkpoint.repairs import Files, Mend, mend_files
from sparkcohort.runtime.protocol.partitions import TopicPartition

COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
METADATA = '{"id":"a query"}'
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def offsets(*ends: int, topic: str = "t") -> str:
    """A file of ``offsets`` as Spark's source writes it."""
    value = json.dumps({topic: {str(number): end for number, end in enumerate(ends)}}, separators=(",", ":"))
    return f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":5,"conf":{{}}}}\n{value}'


def named(**ends: tuple[int, ...]) -> str:
    """The same with a source by name for each topic (Spark 4.2, v2); the last one comes first, as Spark may have it."""
    lines = [f"{topic}:{offsets(*each, topic=topic).splitlines()[2]}" for topic, each in reversed(ends.items())]
    return "\n".join(["v2", *offsets().splitlines()[1:2], *lines])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\0\0",
        "garbage\n{}\n-",
        "v1\n[]\n-",
        "v1\n{}\n-\n{",
        'v2\n{}\norders:{"t":{"0":7}}\n',
        'v2\n{}\norders:{"t":{"0":7}}\n1:{"t"',
        'v2\n{}\n{"t":{"0":7}}',
        "v2\n{}\na:-\na:-",
    ],
)
def test_every_way_to_be_cut_off_is_seen(text: str) -> None:
    """An empty file, zero bytes, and an end anywhere."""
    with pytest.raises(BrokenLog, match="offsets/3"):
        logs.read_offsets(text, "offsets/3")


def test_every_cut_of_a_real_file_is_seen() -> None:
    """However many bytes are missing at the end, it is never taken for whole."""
    whole = offsets(200, 200)
    for text in (whole, named(t=(200, 200))):
        for length in range(len(text)):
            with pytest.raises(BrokenLog):
                logs.read_offsets(text[:length], "offsets/3")


def test_versions_that_are_not_known_are_not_repaired() -> None:
    """A newer Spark's files are no damage."""
    with pytest.raises(UnknownVersion, match="v7"):
        mend_files(Files({0: offsets(1), 1: "v7\nwhatever"}, {0: COMMIT}, METADATA))


def paths(mends: list[Mend]) -> dict[str, str]:
    """What is done to each file."""
    return {mend.path: "refused" if mend.refused else "loss" if mend.loss else "ok" for mend in mends}


@pytest.mark.parametrize(
    ("planned", "done", "stateful", "expected"),
    [
        ({2: offsets(1), 3: offsets(2)}, {2: COMMIT, 3: COMMIT}, False, {}),
        ({2: offsets(1), 3: offsets(2)}, {2: COMMIT}, False, {}),
        ({2: offsets(1), 3: ""}, {2: COMMIT}, False, {"offsets/3": "ok"}),
        ({2: offsets(1), 3: ""}, {2: COMMIT, 3: COMMIT}, False, {"offsets/3": "ok", "commits/3": "ok"}),
        ({2: offsets(1), 3: ""}, {2: COMMIT, 3: ""}, False, {"offsets/3": "ok", "commits/3": "ok"}),
        ({2: offsets(1), 3: ""}, {2: COMMIT, 3: COMMIT}, True, {"offsets/3": "ok", "commits/3": "loss"}),
        ({2: offsets(1), 3: offsets(2)}, {2: COMMIT, 3: ""}, False, {"commits/3": "ok"}),
        ({2: offsets(1), 3: offsets(2)}, {1: COMMIT, 2: ""}, False, {"commits/2": "ok"}),
        ({2: offsets(1), 3: offsets(2)}, {1: 'v2\n{"stateUniqueIds":{}}', 2: ""}, True, {"commits/2": "refused"}),
        ({1: offsets(0), 2: offsets(1)}, {2: COMMIT, 3: COMMIT}, False, {"commits/3": "ok"}),
        ({1: offsets(0), 2: offsets(1)}, {2: COMMIT, 3: COMMIT}, True, {"commits/3": "loss"}),
        ({2: "", 3: offsets(2)}, {3: COMMIT}, False, {"offsets/2": "ok"}),
        ({3: offsets(2)}, {3: COMMIT}, False, {"offsets/2": "ok"}),
        ({2: "", 3: offsets(2)}, {1: COMMIT}, False, {"offsets/2": "refused"}),
        ({2: "", 3: ""}, {1: COMMIT}, False, {"offsets/3": "refused"}),
        ({0: ""}, {}, False, {"offsets/0": "ok"}),
    ],
)
def test_what_mends_the_files(
    planned: dict[int, str], done: dict[int, str], stateful: bool, expected: dict[str, str]
) -> None:
    """Each damage, and the least that mends it; nothing where a batch would begin where nobody knows."""
    assert paths(mend_files(Files(planned, done, METADATA, stateful))) == expected


def test_each_verdict() -> None:
    """Of partitions that are fine, gone, new, silent, beyond the log, and of another topic."""
    names = {name: TopicPartition(name, 0) for name in ("fine", "gone", "silent", "beyond", "anew")}
    plan = RestartPlan(0, KafkaEnds(dict.fromkeys(names.values(), 7), {"anew": "a", "beyond": "b"}), None)
    grown = TopicPartition("fine", 1)
    there = [tp for name, tp in names.items() if name not in ("gone", "silent")]
    ends = {**dict.fromkeys(there, 9), names["beyond"]: 3, grown: 4}
    starts = dict.fromkeys(ends, 0)
    brokers = KafkaPositions(
        starts, ends, {"anew": "c", "beyond": "b"}, {names["fine"]: 5, names["beyond"]: 8}, {names["silent"]: "x"}
    )
    rows = {(row.topic, row.partition): row for row in compare(plan, brokers)}
    assert {name[0]: row.verdict for name, row in rows.items() if not name[1]} == {
        "fine": OK, "gone": MISSING, "silent": UNKNOWN, "beyond": PAST_END, "anew": RECREATED,
    }  # fmt: skip
    assert (rows["fine", 1].verdict, rows["fine", 1].restart_from, rows["fine", 1].records) == (NEW, 0, 4)
    assert (rows["fine", 0].group, rows["beyond", 0].group, rows["gone", 0].group) == (
        "behind by 2",
        "ahead by 1",
        "none",
    )
    assert positions.costs([row for row in rows.values() if row.fails]) == (
        "4 offsets are gone; what 2 partitions of a deleted topic had behind the checkpoint is gone; how much is unknown"
    )


def test_a_batch_in_flight_is_lost_with_its_start() -> None:
    """Retention has passed the start; the end of batch 0, whose start is not in the log, is beyond the log's."""
    brokers = KafkaPositions({T0: 20, T1: 5}, {T0: 40, T1: 40})
    plan = RestartPlan(0, KafkaEnds({T0: 5, T1: 5}, {}), KafkaEnds({T0: 9, T1: 30}, {}))
    assert [(row.verdict, row.lost) for row in compare(plan, brokers)] == [(EXPIRED, 15), (OK, 0)]
    (row,) = compare(RestartPlan(0, None, KafkaEnds({T0: 50}, {})), KafkaPositions({T0: 0}, {T0: 9}))
    assert (row.verdict, row.lost) == (PAST_END, 41)


@pytest.mark.parametrize("metadata", [None, "", "{", "{}", '{"id":7}'])
def test_a_lost_id_is_made_anew(metadata: str | None) -> None:
    """Spark starts neither with a broken one nor without one beside logs."""
    (mend,) = mend_files(Files({0: offsets(1)}, {0: COMMIT}, metadata, fresh_id="new"))
    assert (mend.path, mend.text) == ("metadata", '{"id":"new"}')
    assert not mend_files(Files({}, {}, None))
