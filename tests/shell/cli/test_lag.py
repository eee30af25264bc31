"""``cohort lag`` of a group in Kafka, whoever reads it."""

from __future__ import annotations

import json
import time

from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.produce import produce

EARLIER_S = 7_200


def test_of_any_group_in_kafka(broker: Broker, topic: str) -> None:
    """Records, the age of the first that waits, and the trend; too much is exit status 3, with a line that says so."""
    broker.admin.create_topic(topic, 2)
    produce(broker.bootstrap, topic, 20, partitions=2, timestamp_ms=int(1000 * (time.time() - EARLIER_S)))
    broker.admin.commit(topic, topic, {0: 4, 1: 10})
    asked = ("lag", "--group", topic, "--bootstrap-server", broker.bootstrap)
    found = cohort(*asked, "--by", "partition", "--output", "json")
    assert found.returncode == 0, found.stderr
    behind, done = json.loads(found.stdout)
    assert (behind["partition"], behind["lag"], behind["trend"]) == (0, 6, "steady")
    assert 0 <= behind["seconds"] - EARLIER_S < 60
    assert (done["partition"], done["lag"], done["seconds"]) == (1, 0, 0)
    text = cohort(*asked, "--by", "group").stdout.splitlines()
    assert text[0].split() == ["GROUP", "LAG", "AGE", "TREND"]
    assert text[1].split() == [topic, "6", "2h", "steady"]
    for limit, status in (("5", 3), ("6", 0), ("1h", 3), ("3h", 0)):
        ended = cohort(*asked, "--fail-above", limit)
        assert ended.returncode == status
        assert ("more than --fail-above" in ended.stderr) == (status == 3)


def test_mistakes_are_one_line(broker: Broker, topic: str) -> None:
    """A limit that is none, a broker without a group, a group that there isn't."""
    for arguments, status, words in (
        (("lag", "--fail-above", "much"), 2, "neither a number of records"),
        (("lag", "--bootstrap-server", broker.bootstrap), 2, "--bootstrap-server needs --group"),
        (("lag", "--group", topic, "--bootstrap-server", broker.bootstrap), 1, "has committed nothing"),
    ):
        ended = cohort(*arguments)
        assert (ended.returncode, len(ended.stderr.splitlines())) == (status, 1)
        assert words in ended.stderr
