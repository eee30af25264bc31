"""Real Kafka brokers (KRaft) as child processes, on ports that the system chose.

Usage::

    with Broker() as broker:                      # or the session fixture `broker`
        broker.fill("orders", 10_000, partitions=12)
        broker.pause(); broker.resume(); broker.stop(); broker.start()

    with Cluster(2) as cluster:                   # topics of one replica, spread over two brokers
        cluster.admin.create_topic("t", assignment=[1, 2])   # partition 0 on broker 1, partition 1 on broker 2
        cluster.node(2).stop()                    # broker 1 is controller and group coordinator: it stays

    with Broker(users={"alice": "secret"}) as broker:        # adds a SASL_PLAINTEXT listener and the ACL authorizer
        broker.admin.allow("alice", "topic", "orders", "read")
        Consumer(broker.sasl_conf("alice") | {...})          # broker.bootstrap stays open to all and may do everything

    with Broker(users={"alice": "secret"}, scram={"bob": "secret"}, tls=True) as broker:   # SCRAM users, and listeners
        broker.at["SASL_SSL"]                     # "host:port"; at["SSL"], and at["MUTUAL"], which wants a certificate
        broker.authority.identity("me")           # of the client's

    with Broker(tokens=True) as broker:           # SASL_PLAINTEXT takes unsecured tokens: see tests.kit.tokens
        broker.at["SASL_PLAINTEXT"]

    with Broker(doors={"RELAYED": (port, shown)}) as broker:     # listens on ``port`` too, and tells who comes there
        Consumer({"bootstrap.servers": f"127.0.0.1:{shown}"})    # to connect to ``shown``: somebody's who passes it on

    with Broker(host="[::1]") as broker: ...                 # an IPv6 address, in brackets

    with Broker(properties={"feature": "transaction.version=1"}) as broker: ...   # as an older Kafka has formatted it

Broker n is in ``rack-n``.  A node keeps its address and data over stop, kill and start.  It ends with the thread that started it, at the latest.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sparkcohort.runtime.kafka.addresses import bare
from tests.kit.admin import Admin
from tests.kit.class_archives import kept, quick
from tests.kit.jars import class_path, java
from tests.kit.processes import freeze
from tests.kit.produce import produce
from tests.kit.relay import Relay
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from tests.kit.certificates import Authority

START_TIMEOUT_S = 180.0  # 5 s where nothing else runs
LOGGING = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]

FEATURES = "bootstrap.checkpoint"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
COMMON = {
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,"
    "SSL:SSL,MUTUAL:SSL,SASL_SSL:SASL_SSL",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "message.max.bytes": str(16 << 20),
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


def _authority(directory: Path) -> Authority:
    from tests.kit.certificates import Authority  # its libraries are slow to come, and most brokers need none

    return Authority(directory)


def _random_id() -> str:
    """As Kafka's Uuid.randomUuid: none that a command could take for an option."""
    made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return _random_id() if made.startswith("-") else made


class Port:
    """A port the system chose, kept from everybody else (bound, never listening) while a node is up or down."""

    def __init__(self, host: str) -> None:
        """Bind; a socket that listens with SO_REUSEADDR, as Java's do, can still take the port."""
        self._holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind((bare(host), 0))
        self.number: int = self._holder.getsockname()[1]

    def close(self) -> None:
        """Give the port back to the system."""
        self._holder.close()


class Node:
    """One broker process of a cluster (broker 1 is the controller too)."""

    def __init__(
        self, node_id: int, directory: Path, properties: Mapping[str, str], port: int, java_options: Sequence[str]
    ) -> None:
        """Write the configuration; nothing runs before ``start``."""
        self.node_id = node_id
        self.data = directory / f"data-{node_id}"
        self.log_path = directory / f"node-{node_id}.log"
        self.port = port
        self._config = directory / f"node-{node_id}.properties"
        self._java_options = java_options
        self._host = bare(dict(properties)["host"])
        self._feature = properties.get("feature", "")
        self._process: subprocess.Popen[bytes] | None = None
        self.paused = False
        lines = {k: v for k, v in properties.items() if k not in ("host", "feature")} | {"log.dirs": str(self.data)}
        self._config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    @property
    def pid(self) -> int:
        """The process id of the running node; raises RuntimeError when it is stopped."""
        if self._process is None:
            raise RuntimeError(f"broker {self.node_id} is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there (a paused one is)."""
        return self._process is not None and self._process.poll() is None

    def format(self, cluster_id: str) -> None:
        """Format the storage directory for ``cluster_id``: as kafka.tools.StorageTool has done it for the first node ever.

        What it writes is the node's place in the cluster, and the features of this version of Kafka, which are the same for all.
        """
        features = kept("broker", ".features")
        if self._feature:
            self._format(cluster_id)
            return
        if not features.exists():
            self._format(cluster_id)
            fresh = features.with_name(f"{features.name}.{uuid.uuid4().hex}")
            features.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.data / FEATURES, fresh)
            fresh.rename(features)
            return
        if (self.data / "meta.properties").exists():
            return
        self.data.mkdir(exist_ok=True)
        shutil.copy(features, self.data / FEATURES)
        named = {"version": 1, "cluster.id": cluster_id, "directory.id": _random_id(), "node.id": self.node_id}
        (self.data / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in named.items()))

    def _format(self, cluster_id: str) -> None:
        command = [java(), *quick("broker"), *LOGGING, "-cp", class_path("broker"), "kafka.tools.StorageTool", "format"]
        command += [f"--cluster-id={cluster_id}", "--config", str(self._config), "--ignore-formatted"]
        command += ["--feature", self._feature] if self._feature else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"formatting broker {self.node_id} failed: {done.stdout}{done.stderr}")

    def launch(self) -> None:
        """Start the process without waiting for it."""
        command = ["setpriv", "--pdeathsig", "KILL", java(), *self._java_options, *LOGGING]
        command += ["-cp", class_path("broker"), "kafka.Kafka", str(self._config)]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def start(self) -> None:
        """Start the process and wait until its port answers."""
        self.launch()
        self.wait_for_port()

    def wait_for_port(self) -> None:
        """Wait until the port accepts connections; raises RuntimeError with the log's end when the process died."""
        wait_until(self._listening, START_TIMEOUT_S, f"broker {self.node_id} to listen")

    def _listening(self) -> bool:
        if not self.running:
            raise RuntimeError(f"broker {self.node_id} ended:\n{self.log_tail()}")
        try:
            socket.create_connection((self._host, self.port), 1).close()
        except OSError:
            return False
        return True

    def log_tail(self, characters: int = 4000) -> str:
        """The last ``characters`` of the node's log."""
        return self.log_path.read_text(errors="replace")[-characters:]

    def stop(self, timeout_s: float = 30) -> None:
        """SIGTERM, an orderly shutdown; SIGKILL when it takes longer than ``timeout_s``.  No-op when stopped."""
        self._end(signal.SIGTERM, timeout_s)

    def kill(self) -> None:
        """SIGKILL.  No-op when stopped."""
        self._end(signal.SIGKILL, 10)

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered from now on."""
        freeze(self.pid)
        self.paused = True

    def resume(self) -> None:
        """SIGCONT after ``pause``."""
        os.kill(self.pid, signal.SIGCONT)
        self.paused = False

    def _end(self, how: signal.Signals, timeout_s: float) -> None:
        process, self._process = self._process, None
        self.paused = False
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
            process.send_signal(signal.SIGCONT)  # a paused process would never see a SIGTERM
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Cluster:
    """Several brokers, numbered from 1.  Broker 1 is also the controller, and holds the groups' offsets topic."""

    def __init__(
        self,
        brokers: int = 1,
        *,
        users: Mapping[str, str] | None = None,
        scram: Mapping[str, str] | None = None,
        tls: bool = False,
        tokens: bool = False,
        host: str = "127.0.0.1",
        heap_mb: int = 512,
        java_options: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        doors: Mapping[str, tuple[int, int]] | None = None,
        relayed: Collection[int] = (),
        replicated: bool = False,
    ) -> None:
        """Choose ports and write configurations; ``users`` (name to password) turns SASL/PLAIN and ACLs on, ``tokens`` OAUTHBEARER and ACLs.

        ``scram``: users besides, by SCRAM-SHA-256 and SCRAM-SHA-512.  ``tls``: listeners with TLS besides, see ``at``;
        the broker's certificate is for ``host``.
        ``doors``: further plaintext listeners of broker 1, name to the port it listens on and the one it names to clients.
        ``replicated``: every node is a controller and has a replica of the groups' offsets, and brokers talk to each other on
        ``between``: any one of three may go.  Clients reach the nodes ``relayed`` by way of ``relays``.  ``java_options``: else those of a short-lived JVM.
        """
        self.directory = Path(tempfile.mkdtemp(prefix="cohort-broker-"))
        self.users = dict(users or {})
        self._scram = dict(scram or {})
        self._tokens = tokens
        self.authority = _authority(self.directory) if tls else None
        self._host = host
        self._doors = dict(doors or {})
        self._replicated = replicated
        self._ports = [[Port(host) for _ in range(3)] for _ in range(brokers)]
        secure = {"SSL": tls, "MUTUAL": tls, "SASL_SSL": tls and bool(users)}
        self._between = [Port(host) for _ in range(brokers if replicated else 0)]
        self._secure = [{name: Port(host) for name, wanted in secure.items() if wanted} for _ in range(brokers)]
        extra = dict(properties or {})
        self.relays = {node_id: Relay(host, self._ports[node_id - 1][0].number) for node_id in relayed}
        options = ["-Xms128m", f"-Xmx{heap_mb}m", *(quick("broker") if java_options is None else java_options)]
        self.nodes = [self._node(index + 1, options, extra) for index in range(brokers)]
        self.bootstrap = ",".join(f"{host}:{node.port}" for node in self.nodes)
        self.sasl_bootstrap = ",".join(f"{host}:{sasl.number}" for _, _, sasl in self._ports)
        self.at = {name: ",".join(f"{host}:{ports[name].number}" for ports in self._secure) for name in self._secure[0]}
        self.at |= {"PLAINTEXT": self.bootstrap, "SASL_PLAINTEXT": self.sasl_bootstrap}
        self._admin: Admin | None = None
        self._formatted = False

    def _node(self, node_id: int, java_options: Sequence[str], extra: dict[str, str]) -> Node:
        plain, controller, sasl = (port.number for port in self._ports[node_id - 1])
        listeners, protocols = f"PLAINTEXT://{self._host}:{plain}", COMMON["listener.security.protocol.map"]
        if self.users or self._tokens:
            listeners += f",SASL_PLAINTEXT://{self._host}:{sasl}"
        for name, port in self._secure[node_id - 1].items():
            listeners += f",{name}://{self._host}:{port.number}"
        relay = self.relays.get(node_id)
        advertised = listeners.replace(f":{plain}", f":{relay.port}", 1) if relay else listeners
        if self._replicated:
            between = f",INTERNAL://{self._host}:{self._between[node_id - 1].number}"
            listeners += f",CONTROLLER://{self._host}:{controller}" + between
            advertised += between
            protocols += ",INTERNAL:PLAINTEXT"
        elif node_id == 1:
            listeners += f",CONTROLLER://{self._host}:{controller}"
            for name, (listening, shown) in self._doors.items():
                listeners += f",{name}://{self._host}:{listening}"
                advertised += f",{name}://{self._host}:{shown}"
                protocols += f",{name}:PLAINTEXT"
        properties = COMMON | {
            "host": self._host,
            "node.id": str(node_id),
            "broker.rack": f"rack-{node_id}",
            "process.roles": "broker,controller" if node_id == 1 or self._replicated else "broker",
            "controller.quorum.voters": ",".join(
                f"{number + 1}@{self._host}:{ports[1].number}"
                for number, ports in enumerate(self._ports if self._replicated else self._ports[:1])
            ),
            "listeners": listeners,
            "advertised.listeners": advertised,
            "listener.security.protocol.map": protocols,
        }
        if self._replicated:
            properties["inter.broker.listener.name"] = "INTERNAL"
        return Node(node_id, self.directory, properties | self._security() | extra, plain, java_options)

    def between(self, node_id: int) -> list[int]:
        """The ports on which the others reach a node of a replicated cluster, as broker and as controller."""
        return [self._between[node_id - 1].number, self._ports[node_id - 1][1].number]

    def _security(self) -> dict[str, str]:
        return (self._logins() if self.users or self._tokens else {}) | (self._certificates() if self.authority else {})

    def _logins(self) -> dict[str, str]:
        entries = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        modules = {"plain": f"org.apache.kafka.common.security.plain.PlainLoginModule required {entries};"}
        if self._tokens:
            modules["oauthbearer"] = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
        if self._scram:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            modules |= {mechanism.lower(): module for mechanism in SCRAM}
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": ",".join(name.upper() for name in modules),
        } | {
            f"listener.name.{listener}.{name}.sasl.jaas.config": module
            for listener in ("sasl_plaintext", "sasl_ssl")
            for name, module in modules.items()
        }

    def _certificates(self) -> dict[str, str]:
        assert self.authority is not None
        store = self.directory / "broker.pem"
        store.write_text(self.authority.identity(self._host).pem())
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.path),
            "listener.name.mutual.ssl.client.auth": "required",
        }

    @property
    def admin(self) -> Admin:
        """Topics, offsets, permissions: see ``tests.kit.admin``."""
        if self._admin is None:
            self._admin = Admin(self.bootstrap)
        return self._admin

    def fill(
        self, topic: str, records: int, partitions: int = 1, *, configs: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        """Create a topic with so many records in all; ``more`` as ``produce`` has it."""
        self.admin.create_topic(topic, partitions, configs=configs)
        produce(self.bootstrap, topic, records, partitions=partitions, **more)

    def node(self, node_id: int) -> Node:
        """The broker with this id, from 1."""
        return self.nodes[node_id - 1]

    def sasl_conf(self, user: str, password: str | None = None) -> dict[str, str]:
        """The librdkafka settings with which ``user`` connects; ``password`` overrides the right one."""
        return {
            "bootstrap.servers": self.sasl_bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self.users.get(user, "") if password is None else password,
        }

    def wait_compacted(self, topic: str, partition: int, up_to: int, timeout_s: float = 30) -> None:
        """Wait until the log cleaner has passed offset ``up_to``; the last write of a segment must have rolled it."""

        def cleaned() -> bool:
            files = [node.data / "cleaner-offset-checkpoint" for node in self.nodes]
            lines = [line.split() for file in files if file.exists() for line in file.read_text().splitlines()]
            return any(
                len(line) == 3 and line[:2] == [topic, str(partition)] and int(line[2]) >= up_to for line in lines
            )

        wait_until(cleaned, timeout_s, f"{topic}-{partition} compacted up to {up_to}")

    def start(self) -> None:
        """Start every node that is not running and wait until all are members of the cluster."""
        if not self._formatted:
            cluster_id = _random_id()
            for node in self.nodes:
                node.format(cluster_id)
        started = [node for node in self.nodes if not node.running]
        for node in started:
            node.launch()
        for node in started:
            node.wait_for_port()
        self.wait_for_nodes()
        if not self._formatted:
            # Broker 1 is the one that stays when others are stopped: the groups' offsets belong there.
            where = [[node.node_id for node in self.nodes]] if self._replicated else [1]
            self.admin.create_topic("__consumer_offsets", assignment=where, configs={"cleanup.policy": "compact"})
            for mechanism in SCRAM if self._scram else ():
                self.admin.add_users(mechanism, self._scram)
        wait_until(self.admin.coordinates, START_TIMEOUT_S, "the group coordinator")
        self._formatted = True

    def wait_for_nodes(self) -> None:
        """Wait until all nodes are brokers: after a silence of 3 s the controller has fenced one that was paused."""
        ids = frozenset(node.node_id for node in self.nodes)
        wait_until(lambda: self.admin.brokers() == ids, START_TIMEOUT_S, f"brokers {sorted(ids)} in the metadata")

    def close(self) -> None:
        """Kill what runs, delete the data, give the ports back."""
        for node in self.nodes:
            node.kill()
        for relay in self.relays.values():
            relay.close()
        for port in (
            port for ports in [*self._ports, self._between, *(each.values() for each in self._secure)] for port in ports
        ):
            port.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        """Start."""
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close; an error tells what the nodes had to say."""
        if error is not None:
            for node in (each for each in self.nodes if each.log_path.exists()):
                error.add_note(f"the end of the log of broker {node.node_id}:\n{node.log_tail(2000)}")
        self.close()


class Broker(Cluster):
    """A cluster of one broker, with that broker's own stop, kill, pause and resume."""

    def __init__(self, **options: Any) -> None:
        """As ``Cluster(1)``."""
        super().__init__(1, **options)

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        return self.node(1).pid

    def stop(self) -> None:
        """SIGTERM, and wait for the end."""
        self.node(1).stop()

    def kill(self) -> None:
        """SIGKILL."""
        self.node(1).kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nothing is answered from now on."""
        self.node(1).pause()

    def resume(self) -> None:
        """SIGCONT after ``pause``, and wait until it is a broker again."""
        self.node(1).resume()
        self.wait_for_nodes()
