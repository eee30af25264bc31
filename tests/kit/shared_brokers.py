"""Brokers that many tests share, as fixtures of the session; ``tests/conftest.py`` imports them.

``guarded``  one broker with every listener (see ``Guarded``)
``pair``     two brokers; clients reach the second one through ``relays[2]``, and may read from followers of their rack

A test gives its topics, groups and SCRAM users names of its own.  It may stop, pause and hold what it likes: ``put_back``, which is
imported with them, starts and resumes it all when the test is over.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.broker import Broker, Cluster, Port
from tests.kit.brokerless import BrokerlessRelay
from tests.kit.relay import Relay

PASSWORD = "secret-of-alice"
USERS = {"alice": PASSWORD}
"""The user of PLAIN, who may do nothing until a test allows it."""
SCRAM_USERS = {"b=o,b": "secret,of=bob"}
"""The user of SCRAM; ``admin.add_users`` adds others."""

GUARDED = {
    # A refusal comes at once: what a test waits for then is the client's own back-off.
    "connection.failed.authentication.delay.ms": "0",
    # A client with a certificate may do all, as may one without.
    "ssl.principal.mapping.rules": "RULE:^.*$/ANONYMOUS/",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "listener.name.sasl_plaintext.oauthbearer.connections.max.reauth.ms": "60000",
    # SASL_SSL has older TLS, one mechanism less, and a login by PLAIN that has to be repeated after an hour.
    "listener.name.sasl_ssl.ssl.enabled.protocols": "TLSv1.2",
    "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_ssl.plain.connections.max.reauth.ms": "3600000",
}
PAIR = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "quota.window.num": "2",
    "auto.leader.rebalance.enable": "false",
}


SHARED = ("guarded", "pair")


class Guarded(Broker):
    """One broker with all listeners of ``tests.kit.broker``, and three more.

    ``at["SASL_PLAINTEXT"]`` takes PLAIN, SCRAM and unsecured tokens.  Clients of ``at["RELAYED"]`` go through ``way``, clients of
    ``at["MISDIRECTED"]`` are sent to a port that nobody listens on, ``nowhere``; those of ``at["BROKERLESS"]`` go through
    ``brokerless``, which may keep the broker from them.
    """

    def __init__(self) -> None:
        """Choose ports; nothing runs yet."""
        self._door_ports = [Port("127.0.0.1") for _ in range(4)]
        relayed, brokerless, misdirected, self.nowhere = (port.number for port in self._door_ports)
        self.way = Relay("127.0.0.1", relayed)
        self.brokerless = BrokerlessRelay("127.0.0.1", brokerless)
        doors = {
            "RELAYED": (relayed, self.way.port),
            "BROKERLESS": (brokerless, self.brokerless.port),
            "MISDIRECTED": (misdirected, self.nowhere),
        }
        super().__init__(users=USERS, scram=SCRAM_USERS, tls=True, tokens=True, properties=GUARDED, doors=doors)
        self.relays[1] = self.way
        self.at |= {"RELAYED": f"127.0.0.1:{self.way.port}", "MISDIRECTED": f"127.0.0.1:{misdirected}"}
        self.at |= {"BROKERLESS": f"127.0.0.1:{self.brokerless.port}"}

    def close(self) -> None:
        """As every broker, and its ways with it."""
        super().close()
        self.brokerless.close()
        for port in self._door_ports:
            port.close()


@pytest.fixture(scope="session")
def guarded() -> Iterator[Guarded]:
    """One broker with logins of every kind, certificates and permissions."""
    with Guarded() as running:
        yield running


@pytest.fixture(scope="session")
def pair() -> Iterator[Cluster]:
    """Two brokers, the second one behind a relay."""
    with Cluster(2, properties=PAIR, relayed=(2,)) as running:
        yield running


@pytest.fixture(autouse=True)
def put_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test all nodes of the shared brokers that it has run, and their relays let everything pass."""
    shared = [request.getfixturevalue(name) for name in SHARED if name in request.fixturenames]
    yield
    for cluster in shared:
        paused = [node for node in cluster.nodes if node.paused]
        for node in paused:
            node.resume()
        if paused:
            cluster.wait_for_nodes()
        if not all(node.running for node in cluster.nodes):
            cluster.start()
        for relay in cluster.relays.values():
            relay.rate(None)
            relay.release()
        if isinstance(cluster, Guarded):
            cluster.brokerless.brokerless = False
