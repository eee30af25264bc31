"""The run's own certificate authority, for mutual TLS between the coordinator and its clients."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

SERVER_NAME = "coordinator.cohort.internal"
"""The name in the coordinator's certificate.  Members check it instead of the address: the authority belongs to one run, so the
name proves the run, and the address needn't be known when the certificate is made."""
MEMBER_NAME = "member.cohort.internal"


@dataclass(frozen=True, slots=True)
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


def new_authority() -> RunAuthority:
    """Make a certificate authority for this run, a certificate for each side, and a token, all in memory."""
    from sparkcohort.runtime.shell.rpc.certificates import (  # noqa: PLC0415  a tenth of an agent's start, which makes none
        CLIENT,
        SERVER,
        CertificateAuthority,
    )

    authority = CertificateAuthority()
    server, client = authority.issue(SERVER_NAME, SERVER), authority.issue(MEMBER_NAME, CLIENT)
    return RunAuthority(
        server_certificate=server.certificate,
        server_key=server.key,
        client=Credentials(authority.pem, client.certificate, client.key, secrets.token_hex(32)),
    )
