"""What our Kafka clients set by librdkafka's names: defaults below the user's settings, and what is forced over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

Settings: TypeAlias = Mapping[str, str | int | bool]

PACE: Final[Settings] = {"reconnect.backoff.ms": "1000", "reconnect.backoff.max.ms": "1000"}
"""When all brokers are down or refuse the login, librdkafka (2.16) begins again with ``bootstrap.servers``, and with no memory of
how long it has waited: by default 20 attempts a second for ever, each a refused login and a line in the broker's log."""
# The driver moves no records: the smallest queues, and quick reconnects so that a broker that comes back is seen.
DRIVER: Final[Settings] = {
    "log.connection.close": "false",
    "metadata.recovery.rebootstrap.trigger.ms": "10000",  # not five minutes, where all brokers have been away
    **PACE,
}
DRIVER_CONSUMERS: Final[Settings] = {**DRIVER, "queued.max.messages.kbytes": "1", "queued.min.messages": "1"}
DRIVER_FORCED: Final[Settings] = dict.fromkeys(
    ("allow.auto.create.topics", "enable.auto.commit", "enable.auto.offset.store"), "false"
)

ISOLATION: Final = "read_uncommitted"
"""librdkafka's own default is read_committed, Spark's is Kafka's."""
READING: Final[Settings] = {
    "fetch.error.backoff.ms": 100,
    "fetch.max.bytes": 4 << 20,
    "fetch.queue.backoff.ms": 2,  # librdkafka's default stalls a fast reader for a second
    "fetch.wait.max.ms": 20,
    "isolation.level": ISOLATION,
    "log.connection.close": False,
    "max.partition.fetch.bytes": 1 << 20,
    "max.poll.interval.ms": 86_400_000,  # a slow sink is not a dead consumer: there is no group to be thrown out of
    "queued.max.messages.kbytes": 8 << 10,
    "queued.min.messages": 200_000,
    **PACE,  # librdkafka's default keeps away for up to ten seconds from a broker that is back
    "topic.metadata.propagation.max.ms": 5_000,
}
# A broker answers a fetch with the first record of any partition, and every fetch lists all partitions: a trickle over
# 300 of them was 300 fetches a second.  Data that is there in bulk is never waited for.
UNHURRIED: Final[Settings] = {"fetch.min.bytes": 64 << 10, "fetch.wait.max.ms": 40}
# Reads of ranges depend on these, so no option changes them.
READING_FORCED: Final[Settings] = {
    "allow.auto.create.topics": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
}
PROBING: Final[Settings] = {
    "fetch.max.bytes": 4 << 20,
    "max.partition.fetch.bytes": 256 << 10,
    "message.max.bytes": 1_000_000,
}
"""Of the check whether a leader answers a fetch.  As much as fetching asks for, nearly: a slow one would still deliver a few bytes in time."""
