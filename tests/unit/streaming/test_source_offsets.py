"""Offsets as Spark's JSON: equal offsets, equal text; and errors that say where."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol import offsets_json
from sparkcohort.runtime.protocol.offsets_json import EARLIEST, LATEST, MalformedOffsets, ids_in
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.streaming.source_offsets import KnownOffsets, to_json_value

TPS = st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 2**31 - 1))
OFFSETS = st.dictionaries(TPS, st.integers(0, 2**63 - 1), max_size=8)


def parsed(text: str) -> dict[TopicPartition, int]:
    """As the options read it."""
    return offsets_json.read(offsets_json.load(text, "startingOffsets"), "startingOffsets", EARLIEST)


@given(OFFSETS)
def test_offsets_come_back_from_value_and_text(offsets: dict[TopicPartition, int]) -> None:
    """Reading what was written gives the offsets."""
    assert parsed(json.dumps(to_json_value(offsets))) == offsets


@given(OFFSETS, st.randoms(use_true_random=False))
def test_equal_offsets_give_equal_text(offsets: dict[TopicPartition, int], random: Random) -> None:
    """The order in which they were put together doesn't show, however the value is dumped."""
    mixed = dict(random.sample(list(offsets.items()), len(offsets)))
    assert json.dumps(to_json_value(mixed)) == json.dumps(to_json_value(offsets))


@given(OFFSETS)
def test_keys_are_in_the_order_of_topics_and_partition_numbers(offsets: dict[TopicPartition, int]) -> None:
    """Partition 9 comes before 10."""
    read = json.loads(json.dumps(to_json_value(offsets)), object_pairs_hook=list)
    assert [topic for topic, _ in read] == sorted({topic for topic, _ in offsets})
    for topic, partitions in read:
        assert [int(p) for p, _ in partitions] == sorted(tp.partition for tp in offsets if tp.topic == topic)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v)))
def test_any_json_is_read_or_refused_for_a_reason(value: object) -> None:
    """Nothing but MalformedOffsets is raised, with the name of the option in front."""
    try:
        parsed(json.dumps(value))
    except MalformedOffsets as error:
        assert str(error).startswith("startingOffsets: ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("earliest", "is not JSON"),
        ("[]", "all must be an object"),
        ('{"t":5}', "topic 't' must be an object"),
        ('{"t":{"x":5}}', "'x' of topic 't' is not a partition number"),
        ('{"t":{"-1":5}}', "'-1' of topic 't'"),
        ('{"t":{"\u00b2":5}}', "not a partition number"),
        ('{"t":{"0":"5"}}', 't-0 has "5" where a number is due'),
        ('{"t":{"0":true}}', "t-0 has true"),
        ('{"t":{"0":-3}}', r"t-0 has -3, which can't be \(-2 means earliest, -1 latest\)"),
        ('{"t":{"0":9223372036854775808}}', "can't be"),
        ('{"t":{"0":1},"t":{"1":1}}', "'t' is there twice"),
        ('{"t":{"0":1,"00":1}}', "t-0 is there twice"),
        ('{"":{"0":1}}', "topic without a name"),
    ],
)
def test_bad_offsets_are_refused_with_option_and_place(text: str, why: str) -> None:
    """Each mistake has its own words, and the option's name."""
    with pytest.raises(CohortError, match=rf"^startingOffsets(:| is not JSON:) .*({why})|^startingOffsets {why}: "):
        parsed(text)


def test_earliest_and_latest_are_for_options_only() -> None:
    """-2 and -1 mean something in startingOffsets and nothing in a source offset."""
    text = '{"t":{"0":-2,"1":-1}}'
    assert parsed(text) == {("t", 0): EARLIEST, ("t", 1): LATEST}
    with pytest.raises(MalformedOffsets, match=r"^source offset: t-0 has -2, which can't be$"):
        KnownOffsets().read(json.loads(text))


@given(OFFSETS, st.dictionaries(st.sampled_from("abc"), st.just("lj7XrdGBSHu-2_Ybcic80w")))
def test_an_offset_tells_of_which_topic_it_is(offsets: dict[TopicPartition, int], ids: dict[str, str]) -> None:
    """The id of every topic that it has offsets of, as far as known; the offsets are read as without."""
    known = KnownOffsets()
    value = json.loads(json.dumps(known.write(offsets, ids)))
    told = {topic: topic_id for topic, topic_id in ids.items() if topic in {tp.topic for tp in offsets}}
    assert known.read(value) == KnownOffsets().read(value) == (offsets, told)
    assert {topic: at for topic, at in value.items() if at} == to_json_value(offsets)


@pytest.mark.parametrize("value", [None, 7, "t@x", [], {"@": {}}, {"t@": {}}, {"@x": {}}, {"t@x": {}}, {"t": {"0": 1}}])
def test_what_tells_of_no_topic(value: object) -> None:
    """Whatever else is there, or half of it."""
    assert ids_in(value) == {}


@given(OFFSETS, OFFSETS)
def test_offsets_that_come_back_are_known(first: dict[TopicPartition, int], second: dict[TopicPartition, int]) -> None:
    """What was written or read last and before that is read as it was; anything else as if nothing was known."""
    known = KnownOffsets()
    value = known.write(first)
    again = json.loads(json.dumps(value))
    assert known.read(again)[0] is first
    assert known.read(to_json_value(second)) == (second, {})
    assert known.read(json.loads(json.dumps(value)))[0] is first
    with pytest.raises(MalformedOffsets):
        known.read({"t": {"0": "x"}})
    assert known.read(again)[0] is first
