"""The columns of a write: found by name, checked by type, in the words of Spark's own sink."""

from __future__ import annotations

from itertools import permutations

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.sink_columns import TYPES, sink_columns

SCHEMA = [(name, types[-1]) for name, types in TYPES.items()]


def refused(*schema: tuple[str, str], has_topic: bool = True) -> str:
    """The message with which a schema is refused."""
    with pytest.raises(OptionError) as caught:
        sink_columns(schema, has_topic=has_topic)
    return str(caught.value)


def test_any_order_any_case_and_others_beside() -> None:
    """Each column is found where it is."""
    for some in permutations([*SCHEMA, ("other", "map<string,int>")], 7):
        found = sink_columns([(name.title(), kind.upper()) for name, kind in some], has_topic=False)
        assert {name: some[place][0] for name, place in found.items()} == {name: name for name in TYPES}


def test_the_exact_name_wins() -> None:
    """As Spark's own sink has it, which takes no other."""
    assert sink_columns([("VALUE", "int"), ("value", "string"), ("Key", "binary")], has_topic=True) == {
        "value": 1,
        "key": 2,
    }


def test_a_topic_that_the_option_names_needs_no_column() -> None:
    """Nor is one looked at."""
    assert sink_columns([("topic", "int"), ("value", "string")], has_topic=True) == {"value": 1}
    assert refused(("value", "string"), has_topic=False).startswith(
        "topic option required when no 'topic' attribute is present"
    )


def test_refusals() -> None:
    """A value is required; types that Spark's sink refuses are refused, with what to do."""
    value = ("value", "string")
    assert refused(("key", "string")).startswith("Required attribute 'value' not found")
    struct = "struct<id:int,at:timestamp>"
    assert refused(("value", struct)) == (
        f"value attribute unsupported type {struct}. value must be a(n) string or binary: set value.format to json, avro "
        "or protobuf for a struct, or encode it with to_json(...)"
    )
    assert "partition must be a(n) int: cast it to int" in refused(value, ("partition", "bigint"))
    assert "headers must be a(n) array<struct<key:string,value:binary>>: build it" in refused(
        value, ("headers", "string")
    )
    assert "timestamp must be a(n) timestamp: cast it" in refused(value, ("timestamp", "bigint"))


def test_a_column_with_a_format_is_a_struct() -> None:
    """And no other one."""
    schema = [("key", "binary"), ("value", "struct<id:int>")]
    assert sink_columns(schema, has_topic=True, structs={"value"}) == {"key": 0, "value": 1}
    with pytest.raises(
        OptionError, match=r"key must be a\(n\) struct: build it with struct\(...\), or leave key\.format out"
    ):
        sink_columns(schema, has_topic=True, structs={"key", "value"})
