"""A relay that makes a broker far: it passes on what it gets, each way so much later, and no slower.

    python -P tools/bench/source/relay.py LISTEN:TARGET:DELAY_MS ...      ends with its standard input

Bytes wait in a queue with the time at which they are due: however many are on the way, each is delayed alike, so that
the round trip grows and the bandwidth doesn't shrink.  One thread, ``select`` (whose time-out has microseconds).
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass, field

STDIN = 0
CHUNK = 1 << 18
MOST_QUEUED = 16 << 20  # bytes of one direction; more isn't read until some have gone

Waitable = socket.socket | int


class Lane:
    """What is on its way in one direction.  Knows no clock: time is an argument."""

    def __init__(self, delay_s: float) -> None:
        """Nothing on its way."""
        self._delay_s = delay_s
        self._queue: deque[tuple[float, memoryview]] = deque()
        self.queued = 0

    def push(self, now: float, data: bytes) -> None:
        """Bytes that came at ``now``; none: the end of the stream."""
        self._queue.append((now + self._delay_s, memoryview(data)))
        self.queued += len(data)

    def due(self, now: float) -> memoryview | None:
        """The first bytes if their time has come."""
        return self._queue[0][1] if self._queue and self._queue[0][0] <= now else None

    def sent(self, count: int) -> None:
        """So many of those that were due are gone."""
        at, data = self._queue.popleft()
        self.queued -= count
        if count < len(data):
            self._queue.appendleft((at, data[count:]))

    def next_at(self) -> float | None:
        """When the first bytes are due; None without any."""
        return self._queue[0][0] if self._queue else None


@dataclass(eq=False)
class Way:
    """One direction of one connection."""

    source: socket.socket
    target: socket.socket
    lane: Lane
    ended: bool = False  # by the source
    full: bool = False  # the target takes no more just now
    closed: bool = False
    other: Way | None = field(default=None, repr=False)


class Relay:
    """All connections of all doors."""

    def __init__(self, doors: list[tuple[int, int, float]]) -> None:
        """Listen: (port to listen on, port to connect to, seconds each way)."""
        self._doors = {_listening(port): (target, delay_s) for port, target, delay_s in doors}
        self._ways: set[Way] = set()

    def run(self) -> None:
        """Until standard input ends."""
        while True:
            readers: dict[Waitable, Way] = {
                way.source: way for way in self._ways if not way.ended and way.lane.queued < MOST_QUEUED
            }
            writers = {way.target: way for way in self._ways if way.full}
            watched: list[Waitable] = [STDIN, *self._doors, *readers]
            readable, writable, _ = select.select(watched, list(writers), [], self._wait(time.monotonic()))
            if STDIN in readable and not os.read(STDIN, CHUNK):
                return
            for door in self._doors:
                if door in readable:
                    self._accept(door)
            for each in readable:
                if each in readers:
                    self._read(readers[each])
            for target in writable:
                writers[target].full = False
            self._flush()

    def _wait(self, now: float) -> float | None:
        times = [at for way in self._ways if not way.full and (at := way.lane.next_at()) is not None]
        return max(min(times) - now, 0.0) if times else None

    def _accept(self, door: socket.socket) -> None:
        near, _ = door.accept()
        target, delay_s = self._doors[door]
        try:
            far = socket.create_connection(("127.0.0.1", target), 5)
        except OSError:
            near.close()  # as a broker that is down would
            return
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            each.setblocking(False)
        there, back = Way(near, far, Lane(delay_s)), Way(far, near, Lane(delay_s))
        there.other, back.other = back, there
        self._ways |= {there, back}

    def _read(self, way: Way) -> None:
        try:
            data = way.source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._close(way)
            return
        way.ended = not data
        way.lane.push(time.monotonic(), data)

    def _flush(self) -> None:
        now = time.monotonic()
        for way in list(self._ways):
            while not way.full and not way.closed and (data := way.lane.due(now)) is not None:
                self._send(way, data)

    def _send(self, way: Way, data: memoryview) -> None:
        try:
            if data:
                way.lane.sent(way.target.send(data))
            else:
                way.lane.sent(0)
                way.target.shutdown(socket.SHUT_WR)
                way.closed = True
                if way.other is None or way.other.closed:
                    self._close(way)
        except BlockingIOError:
            way.full = True
        except OSError:
            self._close(way)

    def _close(self, way: Way) -> None:
        for each in (way, way.other):
            if each is not None:
                each.closed = True
                each.source.close()
                self._ways.discard(each)


def _listening(port: int) -> socket.socket:
    door = socket.socket()
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("127.0.0.1", port))
    door.listen(256)
    return door


def main(arguments: list[str]) -> None:
    """Relay for ever; prints a line when it listens."""
    doors = [argument.split(":") for argument in arguments]
    relay = Relay([(int(listen), int(target), float(delay_ms) / 1000) for listen, target, delay_ms in doors])
    print("listening", flush=True)
    relay.run()


if __name__ == "__main__":
    main(sys.argv[1:])
