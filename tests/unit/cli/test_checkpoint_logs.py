"""Spark's logs as text: read, compared with the brokers', and repaired."""

from __future__ import annotations

import json

import pytest

from sparkcohort.cli.checkpoint import logs, repairs
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
from sparkcohort.cli.checkpoint.repairs import Files, Mend, mend_files, mend_positions
from sparkcohort.runtime.protocol.partitions import TopicPartition

COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
METADATA = '{"id":"a query"}'
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
U0, V0 = TopicPartition("u", 0), TopicPartition("v", 0)


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


def test_the_end_of_a_batch_in_flight_moves_with_its_start() -> None:
    """Retention has passed both: no batch may end before it starts; blanks and topics' ids stay as their writer has them."""
    ids = {"t": "old"}
    first = rewritten_as_ours(offsets(5, 5), {T0: 5, T1: 5}, ids)
    second = rewritten_as_ours(offsets(9, 9), {T0: 9, T1: 30}, ids)
    files = Files({2: first, 3: second}, {2: COMMIT}, METADATA, stateful=True)
    brokers = KafkaPositions({T0: 20, T1: 5}, {T0: 40, T1: 40}, {"t": "old"})
    rows = compare(RestartPlan(0, KafkaEnds({T0: 5, T1: 5}, ids), KafkaEnds({T0: 9, T1: 30}, ids)), brokers)
    assert [(row.verdict, row.lost) for row in rows] == [(EXPIRED, 15), (OK, 0)]
    mends = mend_positions(files, rows, brokers)
    assert [(mend.path, (mend.text or "").splitlines()[2]) for mend in mends] == [
        ("offsets/2", '{"t": {"0": 20, "1": 5}, "t@old": {}}'),
        ("offsets/3", '{"t": {"0": 20, "1": 30}, "t@old": {}}'),
    ]
    assert "15 offsets are gone" in mends[0].loss
    assert "aggregates" in mends[0].loss


def rewritten_as_ours(text: str, ends: dict[TopicPartition, int], ids: dict[str, str]) -> str:
    """The same file as of format("cohort")."""
    return logs.rewrite_source(text, 0, logs.as_line(ends, ids, '{"t": {}}'))


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
    (mend,) = mend_positions(Files({3: line_of(plan)}, {3: COMMIT}, METADATA), rows.values(), brokers)
    assert json.loads((mend.text or "").splitlines()[2]) == {
        "anew": {"0": 0}, "beyond": {"0": 3}, "fine": {"0": 7}, "silent": {"0": 7}, "anew@c": {}, "beyond@b": {},
    }  # fmt: skip


def line_of(plan: RestartPlan) -> str:
    """The file of ``offsets`` that a plan is of."""
    assert plan.start is not None
    return logs.rewrite_source(offsets(0), 0, logs.as_line(plan.start.ends, plan.start.ids, ""))


def test_nothing_is_made_of_a_source_whose_topics_are_gone() -> None:
    """An offset without a partition would start anew in silence."""
    rows = compare(RestartPlan(0, KafkaEnds({T0: 5}, {}), None), KafkaPositions({}, {}))
    (mend,) = mend_positions(Files({3: offsets(5)}, {3: COMMIT}, METADATA), rows, KafkaPositions({}, {}))
    assert "nothing would be left" in mend.refused


def test_sources_by_name_move_by_their_names() -> None:
    """Spark writes them in any order, and one begins in the batch in flight: each line stays where it is."""
    before, after = named(t=(5,), u=(3,)), named(u=(4,), v=(1,), t=(9,))
    brokers = KafkaPositions({T0: 7, U0: 0, V0: 2}, {T0: 40, U0: 40, V0: 40}, committed={T0: 5, U0: 3})
    ends = {source: logs.source_of(line, "") for source, line in logs.read_offsets(after, "offsets/3").sources.items()}
    starts = {
        source: logs.source_of(line, "") for source, line in logs.read_offsets(before, "offsets/2").sources.items()
    }
    rows = [
        row for source, end in ends.items() for row in compare(RestartPlan(source, starts.get(source), end), brokers)
    ]
    assert [(row.source, row.checkpoint, row.planned, row.verdict) for row in rows] == [
        ("t", 5, 9, EXPIRED), ("v", None, 1, OK), ("u", 3, 4, OK),
    ]  # fmt: skip
    mends = mend_positions(Files({2: before, 3: after}, {2: COMMIT}, METADATA), rows, brokers)
    assert [(mend.path, (mend.text or "").splitlines()[2:]) for mend in mends] == [
        ("offsets/2", ['u:{"u":{"0":3}}', 't:{"t":{"0":7}}']),
    ]
    assert not mend_files(Files({2: before, 3: after}, {2: COMMIT}, METADATA))


def test_batch_0_in_flight_has_no_start_to_move() -> None:
    """Its start is not in the offset log."""
    rows = compare(RestartPlan(0, None, KafkaEnds({T0: 50}, {})), KafkaPositions({T0: 0}, {T0: 9}))
    assert [row.verdict for row in rows] == [PAST_END]
    (mend,) = mend_positions(Files({0: offsets(50)}, {}, METADATA), rows, KafkaPositions({T0: 0}, {T0: 9}))
    assert "batch 0 is in flight" in mend.refused
    assert repairs.costs(rows) == "41 offsets are gone"


@pytest.mark.parametrize("metadata", [None, "", "{", "{}", '{"id":7}'])
def test_a_lost_id_is_made_anew(metadata: str | None) -> None:
    """Spark starts neither with a broken one nor without one beside logs."""
    (mend,) = mend_files(Files({0: offsets(1)}, {0: COMMIT}, metadata, fresh_id="new"))
    assert (mend.path, mend.text) == ("metadata", '{"id":"new"}')
    assert not mend_files(Files({}, {}, None))
