"""Who may stay at the port: members for good, strangers for a while, many strangers for less."""

from __future__ import annotations

import resource

import pytest

from sparkcohort.runtime.shell.rpc import doorkeeper
from sparkcohort.runtime.shell.rpc.doorkeeper import LEAST_PATIENCE, PATIENCE, Address, PortConnections, raise_limit


def at(*numbers: int) -> dict[int, Address]:
    """Connections of these numbers, each from a port of that number."""
    return {number: Address("10.0.0.1", number) for number in numbers}


def looks(connections: PortConnections, connected: dict[int, Address], *heard: int) -> list[int]:
    """Who has to go after one look; ``heard``: ports that have been let in."""
    return connections.look(connected, lambda: {Address("10.0.0.1", number) for number in heard})


def test_who_was_heard_once_stays_and_who_was_not_goes() -> None:
    """A member that only listens is as good as one that speaks."""
    connections = PortConnections(room=10)
    assert looks(connections, at(1, 2), 1) == []
    for _ in range(PATIENCE - 1):
        assert looks(connections, at(1, 2)) == []
    assert looks(connections, at(1, 2)) == [2]
    assert looks(connections, at(1)) == []


def test_a_late_member_stays() -> None:
    """A thousand that join at once take turns with their handshakes."""
    connections = PortConnections(room=10)
    for _ in range(PATIENCE):
        assert looks(connections, at(1)) == []
    assert all(looks(connections, at(1), *heard) == [] for heard in [(1,), *[()] * 50])


def test_more_than_there_is_room_for_go_soon_the_oldest_first() -> None:
    """Members don't count."""
    connections = PortConnections(room=2)
    looks(connections, at(1, 2, 3, 4), 1, 2)
    for _ in range(LEAST_PATIENCE - 1):
        assert looks(connections, at(1, 2, 3, 4, 5, 6)) == []
    assert looks(connections, at(1, 2, 3, 4, 5, 6)) == [3, 4]
    assert looks(connections, at(1, 2, 5, 6)) == []


def test_a_number_that_comes_again_is_somebody_else() -> None:
    """What was let in was the connection, not its address."""
    connections = PortConnections(room=0)
    assert looks(connections, at(1), 1) == []
    assert looks(connections, {}) == []
    again = {7: Address("10.0.0.1", 1)}
    assert [looks(connections, again) for _ in range(LEAST_PATIENCE + 1)] == [[]] * LEAST_PATIENCE + [[7]]


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("ipv4:127.0.0.1:4711", ("127.0.0.1", 4711)),
        ("ipv6:%5B::1%5D:4711", ("::1", 4711)),
        ("ipv6:[::ffff:127.0.0.1]:4711", ("127.0.0.1", 4711)),
        ("ipv6:%5Bfe80::1%25eth0%5D:4711", ("fe80::1", 4711)),
    ],
)
def test_peers_as_grpc_writes_them(said: str, address: tuple[str, int]) -> None:
    """One end of a connection is the same by whatever name."""
    assert list(doorkeeper._addresses([said, "unix:", "nonsense"])) == [address]


def test_the_limit_is_raised_as_far_as_the_system_grants() -> None:
    """Up to the hard limit, and not to a billion."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        granted = raise_limit()
        assert granted == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert granted == min(before[1] if before[1] > 0 else 1 << 16, 1 << 16)
        assert raise_limit() == granted
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
