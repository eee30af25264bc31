"""The run's own certificate authority: mutual TLS between the coordinator and whoever may talk to it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

SERVER_NAME = "coordinator.cohort.internal"
"""The name in the coordinator's certificate.  Members check it whatever address they dialled: the authority
belongs to one run, so the name proves the run, and no address has to be known when the certificate is made."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client needs to be let in: PEM texts and the run's token, none of them ever shown."""

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
    """Make a certificate authority for this run, a certificate for each side, and a token; nothing touches a disk."""
    import trustme  # noqa: PLC0415  with its cryptography a tenth of an agent's start, which makes no certificates

    authority = trustme.CA(organization_name="cohort coordinator run")
    server = authority.issue_cert(SERVER_NAME)
    client = authority.issue_cert("member.cohort.internal")
    return RunAuthority(
        server_certificate=b"".join(blob.bytes() for blob in server.cert_chain_pems),
        server_key=server.private_key_pem.bytes(),
        client=Credentials(
            authority=authority.cert_pem.bytes(),
            certificate=b"".join(blob.bytes() for blob in client.cert_chain_pems),
            key=client.private_key_pem.bytes(),
            token=secrets.token_hex(32),
        ),
    )
