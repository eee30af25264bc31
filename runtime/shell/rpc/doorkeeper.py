"""Who may stay connected to the group's port: whoever has been let in, and for a moment anybody.

gRPC gives each connection 120 s for its handshake and takes as many as come; Arrow passes on neither of the options
that would change that.  So whoever connects and says nothing holds a descriptor of the driver for two minutes, and some
hundreds of them keep members out.  Here the process looks at its own sockets: a connection on which no request has been
let in (by certificate and token) within ``PATIENCE`` looks is ended, sooner where descriptors get scarce.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import resource
import socket
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.process.threads import Supervised

log = logging.getLogger("sparkcohort.doorkeeper")

LOOK_S: Final = 1.0
PATIENCE: Final = 20
"""Looks, not seconds: a process that was frozen has not given anybody the time.  A thousand members that join at once shake
hands for some seconds."""
LEAST_PATIENCE: Final = 2
TOLD_S: Final = 60.0
ROOM: Final = 4
"""One of so many descriptors, at most, is anybody's: more of those who haven't been let in are ended, the oldest first."""
MOST_DESCRIPTORS: Final = 1 << 16
"""What is asked of the system at most: some limits are a billion, and then each look at all descriptors would take that."""


class Address(NamedTuple):
    """The other end of a connection."""

    host: str
    port: int


def raise_limit() -> int:
    """Take as many file descriptors as the system grants without being asked twice; returns how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return soft if soft != resource.RLIM_INFINITY else MOST_DESCRIPTORS


class PortConnections:
    """Those of one port; decides which are to end.  ``room``: how many may be there without having been let in."""

    def __init__(self, room: int) -> None:
        """Nobody is there."""
        self._room = room
        self._looks: dict[int, int] = {}  # by connection, of those who haven't been let in
        self._members: set[int] = set()

    def look(self, connected: Mapping[int, Address], let_in: Callable[[], Collection[Address]]) -> list[int]:
        """The connections to end now; ``connected`` by their numbers, ``let_in``: who has been heard since the last look."""
        self._members &= connected.keys()
        if others := connected.keys() - self._members:
            heard = let_in()
            self._members |= {number for number in others if connected[number] in heard}
        self._looks = {number: self._looks.get(number, 0) + 1 for number in others - self._members}
        oldest = sorted(self._looks, key=lambda number: (-self._looks[number], number))
        surplus = max(len(oldest) - self._room, 0)
        hasty = {*oldest[:surplus]}
        return [number for number in oldest if self._looks[number] > (LEAST_PATIENCE if number in hasty else PATIENCE)]


class Doorkeeper:
    """Keeps the door of one port of this process, from ``start`` to ``close``."""

    def __init__(self, port: int) -> None:
        """Nobody looks yet."""
        self._port = port
        self._connections = PortConnections(raise_limit() // ROOM)
        self._heard: set[str] = set()
        self._known: dict[int, Address | None] = {}  # sockets by inode; None: none of this port's connections
        self._ended, self._told_at = 0, float("-inf")
        self._closed = threading.Event()
        self._thread = Supervised("cohort-door", self._wait, self._keep, _give_up)

    def let_in(self, peer: str) -> None:
        """A request of this peer, as gRPC writes it, has been let in; from any thread."""
        self._heard.add(peer)

    def start(self) -> None:
        """Look, once a second, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._thread.close()

    def _wait(self) -> bool:
        return not self._closed.wait(LOOK_S)

    def _keep(self) -> None:
        self._ended += self.look()
        self._tell(time.monotonic())

    def _tell(self, now: float) -> None:
        """One line a minute, however many come."""
        if self._ended and now - self._told_at >= TOLD_S:
            self._told_at = now
            log.warning(
                "ended %d connections to the coordinator's port %d on which no member of this run spoke; only executors need "
                "to reach that port",
                self._ended,
                self._port,
            )
            self._ended = 0

    def look(self) -> int:
        """Look once; returns how many connections were ended."""
        heard, self._heard = self._heard, set()  # before the sockets: whoever was heard is among them, or gone
        sockets = dict(_sockets())
        connected: dict[int, Address] = {}
        for inode, descriptor in sockets.items():
            if inode not in self._known:
                self._known[inode] = _peer(descriptor, self._port)
            address = self._known[inode]
            if address is not None:
                connected[inode] = address
        self._known = {inode: address for inode, address in self._known.items() if inode in sockets}
        going = self._connections.look(connected, lambda: set(_addresses(heard)))
        ended = [inode for inode in going if _end(sockets[inode], self._port, connected[inode])]
        self._known.update(dict.fromkeys(ended))  # gRPC will close them, in its own time
        return len(ended)


def _give_up(error: CohortError) -> None:
    """Members are served all the same."""
    log.error("idle connections of strangers to the coordinator's port are not ended any more: %s", error)


def _sockets() -> Iterator[tuple[int, int]]:
    """The sockets of this process: inode and descriptor."""
    try:
        with os.scandir("/proc/self/fd") as found:
            descriptors: Iterable[int] = [int(entry.name) for entry in found]
    except OSError:  # no descriptor is left to read the folder with
        descriptors = range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for descriptor in descriptors:
        try:
            status = os.fstat(descriptor)
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            yield status.st_ino, descriptor


def _peer(descriptor: int, port: int) -> Address | None:
    """Who is at the other end, if it is a connection to this port."""
    try:
        borrowed = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        if borrowed.family not in (socket.AF_INET, socket.AF_INET6) or borrowed.getsockname()[1] != port:
            return None
        host, number, *_ = borrowed.getpeername()
        return _address(host, number)
    except OSError:  # it listens, or its end is under way
        return None
    finally:
        borrowed.detach()


def _end(descriptor: int, port: int, expected: Address) -> bool:
    """End a connection as if the other end had; gRPC closes the descriptor.  False if it is another by now."""
    if _peer(descriptor, port) != expected:
        return False
    borrowed = socket.socket(fileno=descriptor)
    try:
        borrowed.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    finally:
        borrowed.detach()
    return True


def _addresses(peers: Collection[str]) -> Iterator[Address]:
    """gRPC's words, such as ``ipv4:127.0.0.1:4711`` and ``ipv6:%5B::1%5D:4711``."""
    for peer in peers:
        host, _, port = unquote(peer).partition(":")[2].rpartition(":")
        if port.isdigit():
            yield _address(host.strip("[]"), int(port))


def _address(host: str, port: int) -> Address:
    """An IPv4 address is the same where it is written as an IPv6 one."""
    text = host.partition("%")[0]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return Address(text, port)
    mapped = getattr(found, "ipv4_mapped", None)
    return Address(str(mapped or found), port)
