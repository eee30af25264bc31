"""Spark's types for Avro's, as ``from_avro`` of Spark 4.2 has them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparkcohort.runtime.values.avro_columns import column_type
from sparkcohort.runtime.values.avro_schema import AvroSchemaError, parse_schema


def columns(schema: Any) -> str:
    """Spark's type, in its words."""
    return str(column_type(parse_schema(json.dumps(schema))))


def test_what_spark_has_no_column_for_is_told_with_the_place() -> None:
    """Null alone, more digits than 38, more columns than anybody can read."""
    for schema, message in [
        ({"type": "record", "name": "R", "fields": [{"name": "a", "type": "null"}]}, "at a: null alone"),
        (["null"], "null alone"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "a decimal of 39 digits"),
    ]:
        with pytest.raises(AvroSchemaError, match=message):
            columns(schema)
    doubling: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}
    for level in range(1, 30):
        fields = [{"name": "a", "type": doubling}, {"name": "b", "type": f"R{level - 1}"}]
        doubling = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(AvroSchemaError, match="more than 10,000 columns"):
        columns(doubling)
