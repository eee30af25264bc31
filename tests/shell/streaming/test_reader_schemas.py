"""The schema that a registry has for a subject, whatever it is: columns, or one error that names the subject."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sparkcohort.runtime.errors import CohortError
from sparkcohort.streaming.source import CohortSource
from tests.kit.registry import serving

FIELD = {"name": "a", "type": "long"}
ODD: list[Any] = [
    5,
    {"type": "record", "name": "A", "fields": [FIELD, FIELD]},
    {"type": "record", "name": "A", "fields": [{"name": "next", "type": "A"}]},
]


def source(topic: str, url: str) -> CohortSource:
    """Avro values of a topic, read with the schema that the registry has."""
    return CohortSource(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "subscribe": topic,
            "group.id": "g",
            "value.format": "avro",
            "schema.registry.url": url,
        }
    )


@pytest.mark.parametrize("text", [*map(json.dumps, ODD), "nonsense"], ids=lambda text: text[:30])
def test_a_schema_that_nobody_foresaw_is_one_error_with_its_subject(text: str) -> None:
    """Whose option it is not, as nobody has set ``value.schema``."""
    with serving() as registry:
        registry.register("odd-value", text)
        with pytest.raises(CohortError, match="subject 'odd-value', version 1, of the schema registry: Avro schema"):
            source("odd", registry.url).schema()


@pytest.mark.parametrize("schema", [FIELD["type"], ["null", "string"], {"type": "map", "values": "int"}], ids=str)
def test_a_schema_of_any_type_is_a_column(schema: Any) -> None:
    """``load()`` and ``start()`` agree, and the registry is asked once for both."""
    with serving() as registry:
        registry.register("odd-value", json.dumps(schema))
        made = source("odd", registry.url)
        made.streamReader(made.schema())
        assert len(registry.requests) == 1
