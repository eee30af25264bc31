"""Cases of ``cohort simulate``: what is read, what is refused and in which words, what is changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from sparkcohort.assignors import Load, MemberSubscription
from sparkcohort.cli.simulate import case as simulation_case
from sparkcohort.cli.simulate.case import MOST_PARTITIONS, Case, CaseError, as_value, parse
from sparkcohort.cli.simulate.changes import change_members, change_partitions
from sparkcohort.cli.simulate.owned_partitions import OwnedPartitions, oddities
from tests.kit import groups

WHOLE: dict[str, Any] = {
    "assignor": "cooperative-sticky",
    "topics": {"orders": 2, "returns": 1},
    "racks": {"orders": [["a", "b"], []]},
    "members": {
        "m1": {
            "topics": ["orders", "returns"],
            "owned": [["orders", 0], ["gone", 7]],
            "generation": 5,
            "instance_id": "i1",
            "rack": "a",
            "since": [["orders", 0, 4]],
            "loads": [["orders", 0, 900, 65000.5, 12]],
        },
        "m2": {"topics": []},
    },
}


def test_everything_that_a_case_has_is_read() -> None:
    """Each key of the case and of a member has its place; what is left out is at its default."""
    case = parse(json.dumps(WHOLE))
    assert (case.assignor, case.topics) == ("cooperative-sticky", {"orders": 2, "returns": 1})
    assert case.racks == {"orders": (("a", "b"), ())}
    assert case.members["m1"] == MemberSubscription(
        topics=("orders", "returns"),
        owned=(("orders", 0), ("gone", 7)),
        generation=5,
        instance_id="i1",
        rack="a",
        since={("orders", 0): 4},
        loads={("orders", 0): Load(900.0, 65000.5, 12)},
    )
    assert case.members["m2"] == MemberSubscription(())


def test_a_case_that_is_written_is_read_as_it_was() -> None:
    """as_value and parse are each other's inverse; bytes with a byte order mark are read too."""
    case = parse(json.dumps(WHOLE))
    assert parse(b"\xef\xbb\xbf" + json.dumps(as_value(case)).encode()) == case


@given(topics=groups.topics(), members=groups.members())
def test_any_group_can_be_written_and_read(topics: dict[str, int], members: groups.Members) -> None:
    """Whatever the members claim."""
    assert parse(json.dumps(as_value(Case(topics, members)))).members == members


def test_null_is_not_told() -> None:
    """Of what may be left out, null says as little; of what may not, it is a mistake."""
    bare = parse('{"topics": {"t": 1}, "members": {"m": {"topics": ["t"]}}}')
    said = '{"assignor": null, "racks": null, "topics": {"t": 1}, "members": {"m": {"topics": ["t"], %s}}}'
    optional = ("owned", "generation", "instance_id", "rack", "since", "loads")
    assert parse(said % ", ".join(f'"{key}": null' for key in optional)) == bare
    for text in ('{"topics": null, "members": {}}', '{"topics": {}, "members": null}'):
        with pytest.raises(CaseError, match="Expected `object`, got `null`"):
            parse(text)


def changed(path: str, value: Any) -> str:
    """The whole case as JSON with the value at ``path`` (dots between keys) replaced, or deleted where it's None."""
    case = json.loads(json.dumps(WHOLE))
    *way, last = [int(word) if word.isdigit() else word for word in path.split(".")]
    place: Any = case
    for word in way:
        place = place[word]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(case)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("topics", ..., "the case: Object missing required field `topics`"),
        ("member", {}, "the case: Object contains unknown field `member`"),
        ("topics.orders", -1, "the case: Expected `int` >= 0 - at `$.topics[...]`"),
        ("topics.more", MOST_PARTITIONS, "topics: 5,000,003 partitions are too many, at most 5,000,000"),
        ("members.m1", 7, "members.m1: Expected `object`, got `int`"),
        ("members.m1.topic", [], "members.m1: Object contains unknown field `topic`"),
        ("members.m1.topics.0", "returns", "members.m1.topics: one of them stands twice"),
        ("members.m1.owned.1", ["orders", 0], "members.m1.owned: one of them stands twice"),
        ("members.m1.generation", -2, "members.m1: Expected `int` >= -1 - at `$.generation`"),
        ("members.m1.loads.0", ["orders", 0, 1e16, 1, 1], "members.m1: Expected `float` <= 1000000000000000.0 - at"),
        ("racks.order", [], 'racks: there is no topic "order"; did you mean "orders"?'),
        ("racks.orders", [["a"]], "racks.orders: 1 partition listed, but topics has 2 of them"),
    ],
)
def test_a_mistake_is_named_with_its_place(path: str, value: Any, words: str) -> None:
    """Unknown keys, wrong types, negative numbers, duplicates: where, what was expected, what is there."""
    with pytest.raises(CaseError) as error:
        parse(changed(path, value))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b" \n\t", "the case is empty"),
        ('{"topics": {}, "members": {}} x', "the case: JSON is malformed: trailing characters (byte"),
        ('{"topics": {"t": ' + "9" * 5000 + '}, "members": {}}', "Integer value out of range"),
        ('{"topics": {}, "x": ' + "[" * 200_000, "the case: "),
        (b'{"topics": "\xff"}', "the case: "),
    ],
)
def test_what_is_no_json_is_said_so(text: str | bytes, words: str) -> None:
    """Empty, cut, too deep, not text: one line that is not long."""
    with pytest.raises(CaseError) as error:
        parse(text)
    assert words in str(error.value)
    assert len(str(error.value)) < 200


def test_a_case_that_is_too_big_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """More bytes or members than there can be are refused before anything is made of them."""
    monkeypatch.setattr(simulation_case, "MOST_BYTES", 2**20)
    with pytest.raises(CaseError, match="larger than 1 MiB"):
        parse(b" " * (2**20 + 1))
    monkeypatch.setattr(simulation_case, "MOST_MEMBERS", 1)
    with pytest.raises(CaseError, match="members: 2 are too many, at most 1"):
        parse(json.dumps(WHOLE))


def a_case() -> Case:
    """Three members, two of them of one client id."""
    m1, m2 = (MemberSubscription(("orders",), (("orders", number),), 5, f"i{number}") for number in (0, 1))
    m3 = MemberSubscription(("orders", "returns"))
    names = {"m1": "executor-1", "m2": "twin", "m3": "twin"}
    return Case({"orders": 2, "returns": 1}, {"m1": m1, "m2": m2, "m3": m3}, {"orders": (("a",), ("b",))}, names=names)


def test_members_come_and_go() -> None:
    """New ones want what most want, under names of their own; old ones go by id, client id or instance id."""
    case = change_members(a_case(), ["-executor-1", "+1", "+1@b", "-i1"])
    assert list(case.members) == ["m3", "new-1", "new-2"]
    assert case.members["new-1"] == MemberSubscription(("orders",))
    assert case.members["new-2"].rack == "b"
    assert case.notes == ("members want different topics; new ones want what most do: 1 topic",)
    assert list(change_members(case, ["+1"]).members)[-1] == "new-3"
    named = change_members(case, ["+executor-9@b"]).members["executor-9"]
    assert (named.topics, named.rack) == (("orders",), "b")
    assert change_members(Case({"t": 1}, {}), ["+1"]).members["new-1"].topics == ("t",)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("-m4", 'there is no member "m4"; did you mean "m3"?'),
        ("-twin", '2 members are called "twin": give the id of one, "m2", "m3"'),
        ("+0", "from 1 to 99,997 members can be added"),
        (f"+{'9' * 5000}", "from 1 to 99,997 members can be added"),
        ("+1,-m2", "one change at a time, the option may be repeated"),
        ("+m1", 'there is a member "m1" already'),
        ("+@b", "expected +2 (two more), +2@rack (in that rack), +name (one called so) or -name"),
        ("-", "expected +2"),
    ],
)
def test_a_change_of_members_that_can_not_be(change: str, words: str) -> None:
    """Unknown, ambiguous, too many, no change at all."""
    with pytest.raises(CaseError) as error:
        change_members(a_case(), [change])
    assert words in str(error.value)


def test_topics_grow_and_shrink() -> None:
    """Racks of new partitions are unknown, those of partitions that are gone are gone."""
    grown = change_partitions(a_case(), ["orders=3", "returns=0"])
    assert (grown.topics, grown.racks["orders"]) == ({"orders": 3, "returns": 0}, (("a",), ("b",), ()))
    assert change_partitions(grown, ["orders=1"]).racks["orders"] == (("a",),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("order=3", 'there is no topic "order"; did you mean "orders"?'),
        ("orders=-3", "expected TOPIC=NUMBER"),
        ("=3", "expected TOPIC=NUMBER"),
        ("orders=5000000", "5,000,001 partitions are too many"),
    ],
)
def test_a_change_of_partitions_that_can_not_be(change: str, words: str) -> None:
    """Unknown topics, what is no number, too many."""
    with pytest.raises(CaseError) as error:
        change_partitions(a_case(), [change])
    assert words in str(error.value)


def test_what_assignors_pass_over_is_told() -> None:
    """Claims of what isn't there, isn't wanted, or is claimed twice; topics nobody wants; topics that aren't there."""
    members = {
        "a": MemberSubscription(("t", "absent"), (("t", 0), ("t", 9), ("u", 0)), 1),
        "b": MemberSubscription(("t",), (("t", 0),), 1),
    }
    topics = {"t": 2, "u": 1}
    assert oddities(topics, members, OwnedPartitions(topics, members)) == [
        "1 partition claimed by several members: the highest generation counts, and none that two have: t-0",
        "1 partition claimed but missing: t-9",
        "1 partition claimed by a member that doesn't subscribe to the topic: u-0",
        "nobody subscribes to u",
        "subscribed to but not there: absent",
    ]
