"""Certificates of an authority of our own, in the forms that Kafka's brokers and its clients read."""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate


class Identity:
    """A certificate and its key."""

    def __init__(self, issued: trustme.LeafCert) -> None:
        """Take what trustme made."""
        self._key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        self.chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems).decode()

    def key(self, password: str = "") -> str:
        """The key in PEM, in PKCS8, which is all that Java reads; encrypted when there is a password."""
        sealed = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed).decode()

    def pem(self) -> str:
        """Key and certificates in one text."""
        return self.key() + self.chain

    def store(self, password: str) -> bytes:
        """Both as a PKCS12 key store."""
        certificate = load_pem_x509_certificate(self.chain.encode())
        sealed = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"me", self._key, certificate, None, sealed)  # type: ignore[arg-type]


class Authority:
    """A certificate authority that nobody trusts by himself; ``path`` is its certificate in PEM."""

    def __init__(self, directory: Path) -> None:
        """Make it and write its certificate."""
        self._authority = trustme.CA()
        self.pem = self._authority.cert_pem.bytes().decode()
        self.path = directory / f"authority-{id(self)}.pem"
        self.path.write_text(self.pem)

    def identity(self, name: str) -> Identity:
        """A certificate for a host name or an address."""
        return Identity(self._authority.issue_cert(name))
