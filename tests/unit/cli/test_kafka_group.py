"""A group that Kafka doesn't know is named with the nearest that it does."""

from __future__ import annotations

from sparkcohort.cli import kafka_group


def test_a_group_that_has_come_since() -> None:
    """Between two answers."""
    said = str(kafka_group._unknown_group("orders", ["order", "orders"]))
    assert said == "the coordinator of group orders does not know it yet: its query may be starting; ask again"
    assert "did you mean orders?" in str(kafka_group._unknown_group("ordes", ["orders", "order"]))
