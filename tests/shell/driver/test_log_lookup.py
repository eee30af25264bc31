"""What only the status wants to know of the logs: where they start, and which transactions are open."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.batches import open_transactions
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver import log_lookup
from sparkcohort.runtime.shell.driver.log_lookup import LogLookup
from tests.kit.broker import Broker
from tests.kit.produce import open_transaction, produce
from tests.kit.waiting import hold_for, wait_until
from tests.shell.driver.test_log_ends import log_ends


def test_where_logs_start(broker: Broker, topic: str) -> None:
    """The first available offset of each, soon after it is wanted."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 20, partitions=2)
    broker.admin.delete_records(topic, {0: 4})
    with log_ends(broker.bootstrap, subscribe=topic) as ends:
        ends.start()
        lookup = LogLookup(ends, committed_only=False)
        lookup.want()
        wait_until(lambda: lookup.starts() == {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 0}, 30, "starts")


def test_an_open_transaction_is_told_of(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody has to ask: what waits behind it, for how long, and one warning; and it is over when the transaction is."""
    monkeypatch.setattr(log_lookup, "GAP_S", 0.2)
    monkeypatch.setattr(open_transactions, "STANDS_MS", 1_000)
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 10, partitions=2)
    held = TopicPartition(topic, 1)
    with log_ends(broker.bootstrap, subscribe=topic, kafka__isolation__level="read_committed") as ends:
        ends.start()
        lookup = LogLookup(ends, committed_only=True)
        lookup.start()
        try:
            hold_for(lambda: not lookup.open_transactions(), 3, "nothing open")
            client = open_transaction(broker.bootstrap, topic, 5, 12, partition=1)
            produce(broker.bootstrap, topic, 4, partitions=2, first=12)
            wait_until(lambda: lookup.open_transactions().get(held, (0, 0))[0] == 9, 60, "what waits")
            first = lookup.open_transactions()
            assert first.keys() == {held}
            wait_until(lambda: lookup.open_transactions()[held].seconds > first[held].seconds + 1, 60, "its age")
            client.commit_transaction(30)
            wait_until(lambda: not lookup.open_transactions(), 60, "its end")
        finally:
            lookup.close()
    (warning,) = [each.getMessage() for each in caplog.records if each.name == "sparkcohort.log_lookup"]
    assert warning.startswith(f"{topic}-1: open transactions hold ")
    assert "kafka-transactions find-hanging" in warning
