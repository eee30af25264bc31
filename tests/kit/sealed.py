"""Executors in a network namespace of their own that takes no connection from outside.

Usage (root only)::

    with SealedNetwork() as network, Broker(host=network.host) as broker:
        with Driver(..., env=network.environment()) as driver: ...
        network.cut(port)                             # nothing from inside reaches this port of ours any more
        network.heal(port)
        network.translate("10.212.0.1")               # to those inside, another address of ours

The environment's ``JAVA_HOME`` has a ``java`` that puts executors, and nothing else, into the namespace; what they
start inherits it; with ``only="0"`` it is the executor with that id alone.  Driver, master and workers stay outside and reach them only over connections they opened.
"""

from __future__ import annotations

import random
import shlex
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kit.jars import java

NEED = "this test needs a machine on which it may make a network namespace (root, or CAP_NET_ADMIN and CAP_SYS_ADMIN)"
ESTABLISHED, LISTEN, LOOPBACK = (
    "01",
    "0A",
    "0100007F",
)  # as /proc/net/tcp writes states, and 127.0.0.1 (::ffff:127.0.0.1 too)
LAUNCHER = """#!/bin/sh
case " $* " in *" org.apache.spark.executor.CoarseGrainedExecutorBackend "*{only}*) ;; *) exec {java} "$@" ;; esac
previous=
for argument do
  shift
  [ "$previous" = --hostname ] && set -- "$@" {inside} || set -- "$@" "$argument"
  previous=$argument
done
exec nsenter --net=/run/netns/{name} {java} "$@"
"""


class SealedNetwork:
    """One namespace, joined to this one by a pair of interfaces; ``host`` is this side's address, ``inside`` the other's."""

    def __init__(self, only: str = "") -> None:
        """Choose names and addresses; nothing is made before the block is entered."""
        self._only = f'" --executor-id {only} "' if only else ""
        number = random.SystemRandom().randrange(1 << 14)
        third, fourth = divmod(4 * number, 256)
        self.name = f"cohort-{number}"
        self.host, self.inside = f"10.211.{third}.{fourth + 1}", f"10.211.{third}.{fourth + 2}"
        self._links = f"co{number}h", f"co{number}n"
        self._home: Path | None = None

    def __enter__(self) -> Self:
        """Make it; raises AssertionError saying what is needed where that is not permitted."""
        host_link, inside_link = self._links
        try:
            self._ip("netns", "add", self.name)
            self._ip("link", "add", host_link, "type", "veth", "peer", "name", inside_link, "netns", self.name)
            self._ip("address", "add", f"{self.host}/30", "dev", host_link)
            self._ip("link", "set", host_link, "up")
            self._ip("-n", self.name, "address", "add", f"{self.inside}/30", "dev", inside_link)
            self._ip("-n", self.name, "link", "set", inside_link, "up")
            self._ip("-n", self.name, "link", "set", "lo", "up")
            sealed = ["iptables", "-A", "INPUT", "-i", inside_link, "-p", "tcp", "--syn", "-j", "DROP"]
            self._run("ip", "netns", "exec", self.name, *sealed)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Take the namespace away, and with it both interfaces; what runs in it loses its network."""
        subprocess.run(["ip", "link", "delete", self._links[0]], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True, check=False)
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)

    def environment(self) -> dict[str, str]:
        """What a Spark application's environment has to have for its executors to be in here."""
        if self._home is None:
            self._home = Path(tempfile.mkdtemp(prefix="cohort-java-"))
            launcher = self._home / "bin" / "java"
            launcher.parent.mkdir()
            launcher.write_text(
                LAUNCHER.format(java=shlex.quote(java()), inside=self.inside, name=self.name, only=self._only)
            )
            launcher.chmod(0o755)
        return {"JAVA_HOME": str(self._home), "SPARK_LOCAL_IP": self.host}

    def cut(self, port: int) -> None:
        """Drop whatever goes from in here to a port of this side: no answer, no refusal."""
        self._run("ip", "netns", "exec", self.name, "iptables", "-A", "OUTPUT", *_to(port))

    def heal(self, port: int) -> None:
        """Let it pass again."""
        self._run("ip", "netns", "exec", self.name, "iptables", "-D", "OUTPUT", *_to(port))

    def translate(self, address: str) -> None:
        """From in here ``address``, which nobody has, leads to this side: what a NAT or a service in front of it does."""
        translated = ["-t", "nat", "-A", "OUTPUT", "-d", address, "-j", "DNAT", "--to-destination", self.host]
        self._run("ip", "netns", "exec", self.name, "iptables", *translated)
        self._ip("-n", self.name, "route", "add", f"{address}/32", "via", self.host)

    def refuses(self, port: int, timeout_s: float = 1.0) -> bool:
        """Whether no connection from here to ``port`` inside comes about."""
        try:
            socket.create_connection((self.inside, port), timeout_s).close()
        except OSError:
            return True
        return False

    def holds(self, pid: int) -> bool:
        """Whether a process is in there."""
        return Path(f"/proc/{pid}/ns/net").stat().st_ino == Path(f"/run/netns/{self.name}").stat().st_ino

    @staticmethod
    def listening(pid: int) -> list[int]:
        """The TCP ports that anybody listens on in this process's network, loopback alone left out."""
        rows = [line.split() for name in ("tcp", "tcp6") for line in _lines(Path(f"/proc/{pid}/net/{name}"))]
        places = [row[1].split(":") for row in rows if row[3] == LISTEN]
        return [int(port, 16) for address, port in places if not address.endswith(LOOPBACK)]

    @staticmethod
    def peers(pid: int) -> set[tuple[str, int]]:
        """Address and port of every IPv4 connection in this process's network, as those who opened it named them."""
        rows = [line.split() for name in ("tcp", "tcp6") for line in _lines(Path(f"/proc/{pid}/net/{name}"))]
        places = [row[2].split(":") for row in rows if row[3] == ESTABLISHED]
        # In tcp6 an address of IPv4 is the last of four words.
        return {(socket.inet_ntoa(bytes.fromhex(address[-8:])[::-1]), int(port, 16)) for address, port in places}

    def _ip(self, *arguments: str) -> None:
        self._run("ip", *arguments)

    @staticmethod
    def _run(*command: str) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise AssertionError(f"{NEED} and the programs ip and iptables: {error}") from None
        if done.returncode != 0:
            raise AssertionError(f"{NEED}: `{' '.join(command)}` said: {done.stderr.strip()}")


def _to(port: int) -> list[str]:
    return ["-p", "tcp", "--dport", str(port), "-j", "DROP"]


def _lines(table: Path) -> list[str]:
    return table.read_text().splitlines()[1:]
