"""A topic of which Kafka itself loses records, and what its reader, with ``failOnDataLoss=false``, owes: all that is left.

It may come twice: what a leader was killed with before it had acknowledged it may have been read, and is sent again.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from tests.kit.broker import Cluster
from tests.kit.waiting import wait_until

TOPIC: Final = "perishable"
REPLICAS: Final = ((1, 2), (2, 3))
CONFIGS: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
WAIT_S: Final = 60.0


def create(cluster: Cluster) -> None:
    """Make the topic; two replicas, of which one is enough."""
    cluster.admin.create_topic(TOPIC, assignment=REPLICAS, configs=CONFIGS)


def make_anew(cluster: Cluster) -> None:
    """Delete it, and make another one of that name."""
    cluster.admin.delete_topic(TOPIC)
    create(cluster)


def delete_records(cluster: Cluster) -> None:
    """As retention does that has passed whatever is planned: nothing stays."""
    cluster.admin.delete_records(TOPIC, cluster.admin.ends(TOPIC))


def elect_uncleanly(cluster: Cluster) -> str:
    """A replica of partition 0 that has missed the end of the log leads it: returns which.  All brokers are back at the end."""
    admin = cluster.admin
    wait_until(lambda: admin.in_sync(TOPIC)[0] == set(REPLICAS[0]), WAIT_S, "both replicas to be in sync")
    leader = admin.leaders(TOPIC)[0]
    (other,) = set(REPLICAS[0]) - {leader}
    try:
        cluster.node(other).pause()
        wait_until(lambda: admin.in_sync(TOPIC)[0] == {leader}, WAIT_S, "the other replica to be missed")
        before = admin.ends(TOPIC)[0]
        wait_until(lambda: admin.ends(TOPIC)[0] > before, WAIT_S, "records that only the leader has")
        cluster.node(leader).kill()
        cluster.node(other).resume()
        wait_until(lambda: leader not in admin.brokers() and other in admin.brokers(), WAIT_S, "the brokers to know")
        admin.elect_anyone(TOPIC)
        wait_until(lambda: admin.leaders(TOPIC)[0] == other, WAIT_S, "the other one to lead")
    finally:
        cluster.node(other).resume()
        if not cluster.node(leader).running:
            cluster.node(leader).launch()
    return f"broker {other} leads instead of {leader}"


def judge(held: pa.Table, delivered: pa.Table) -> list[str]:
    """What the cluster has in the end and the sink has not, a line each; records are known by partition and content."""
    missing = _contents(held) - _contents(delivered)
    return [
        f"lost: {TOPIC}-{number}, a record of {size} bytes with the CRC {crc}" for number, size, crc in sorted(missing)
    ]


def _contents(records: pa.Table) -> set[tuple[int, int, int]]:
    return set(zip(*(records[name].to_pylist() for name in ("partition", "size", "crc")), strict=True))
