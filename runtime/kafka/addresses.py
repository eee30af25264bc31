"""Hosts and ports as text: an IPv6 address has brackets beside a port, and nowhere else."""

from __future__ import annotations

from sparkcohort.runtime.kafka.fetch_messages import Node, address_error
from sparkcohort.runtime.text import printable

DEFAULT_PORT = 9092


def bare(host: str) -> str:
    """The host as a resolver wants it; Spark's ``spark.driver.host`` has brackets where it is an IPv6 address."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def joined(host: str, port: int) -> str:
    """``host:port``, ``[::1]:port``; the host may have its brackets already."""
    name = bare(host)
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def servers(text: str) -> list[Node]:
    """The addresses of ``bootstrap.servers``: ``[PROTOCOL://]host[:port]``, separated by commas.

    As librdkafka reads them: several colons without brackets are an IPv6 address without a port.  Raises ValueError that
    names what is no address.
    """
    nodes = []
    for server in text.split(","):
        address = server.strip().rpartition("://")[2]
        if not address:
            continue
        host, colon, port = address.rpartition(":")
        if not colon or address.endswith("]") or (":" in host and not host.endswith("]")):
            host, port = address, ""
        number = int(port or DEFAULT_PORT) if (port or "0").isdecimal() and len(port) < 6 else 0
        wrong = address_error(bare(host), number)
        if wrong:
            raise ValueError(f"{printable(server.strip(), 100)}, {wrong}")
        nodes.append(Node(bare(host), number))
    return nodes
