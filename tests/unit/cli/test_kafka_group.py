"""Groups as Kafka tells them: what is not known is said, and nobody is told that they mean what they said."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from sparkcohort.cli import kafka_group
from sparkcohort.cli.group_list import _of_kafka


def failed(code: int) -> Future[Any]:
    """An answer that says so."""
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


def test_groups_that_are_not_described() -> None:
    """A silent coordinator's has its row, of which the rest is unknown; of those that are denied their number is told."""
    futures = {
        "silent": Future[Any](),
        "away": failed(KafkaError.COORDINATOR_NOT_AVAILABLE),
        "denied": failed(KafkaError.GROUP_AUTHORIZATION_FAILED),
        "ended": failed(KafkaError.GROUP_ID_NOT_FOUND),
    }
    view = _of_kafka(kafka_group._sort_groups(futures, ("broker 2 is down",)))
    assert view.rows == tuple((name, "unreachable", None, None, None, None) for name in ("away", "silent"))
    assert view.notes == (
        "a broker has not listed its groups, which are left out: broker 2 is down",
        "groups that are left out, since this user may not describe them: 1",
    )


def test_a_group_that_has_come_since() -> None:
    """Between two answers."""
    said = str(kafka_group._unknown_group("orders", ["order", "orders"]))
    assert said == "the coordinator of group orders does not know it yet: its query may be starting; ask again"
    assert "did you mean orders?" in str(kafka_group._unknown_group("ordes", ["orders", "order"]))
