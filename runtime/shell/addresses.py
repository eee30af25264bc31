"""Hosts and ports as text: an IPv6 address has brackets beside a port, and nowhere else."""

from __future__ import annotations


def bare(host: str) -> str:
    """The host as a resolver wants it; Spark's ``spark.driver.host`` has brackets where it is an IPv6 address."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def joined(host: str, port: int) -> str:
    """``host:port``, ``[::1]:port``; the host may have its brackets already."""
    name = bare(host)
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
