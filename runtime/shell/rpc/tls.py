"""What the two ends of the run's port authenticate with, by mutual TLS and a token."""

from __future__ import annotations

from dataclasses import dataclass, field

SERVER_NAME = "coordinator.cohort.internal"
"""The name in the coordinator's certificate.  Members check it instead of the address: the authority belongs to one run, so the
name proves the run, and the address needn't be known when the certificate is made."""
MEMBER_NAME = "member.cohort.internal"


@dataclass(frozen=True)  # without slots, as endpoint.Run
class Credentials:
    """What a client authenticates with: PEM texts and the run's token; none is ever shown."""

    authority: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunAuthority:
    """Server and client certificates of one coordinator run, and its token."""

    server_certificate: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    client: Credentials = field(repr=False)
