"""Certificates of an authority of our own, in the forms that Kafka's brokers and its clients read."""

from __future__ import annotations

import datetime as dt
import ipaddress
from copy import copy
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

WEEK = dt.timedelta(days=7)


class Identity:
    """A certificate and its key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        """Take both as they were made."""
        self._certificate, self._key = certificate, key
        self.chain = certificate.public_bytes(Encoding.PEM).decode()

    def key(self, password: str = "") -> str:
        """The key in PEM, in PKCS8, which is all that Java reads; encrypted when there is a password."""
        sealed = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed).decode()

    def pem(self) -> str:
        """Key and certificates in one text."""
        return self.key() + self.chain

    def store(self, password: str) -> bytes:
        """Both as a PKCS12 key store."""
        sealed = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"me", self._key, self._certificate, None, sealed)


class Authority:
    """A certificate authority that nobody trusts by himself; ``path`` is its certificate in PEM."""

    def __init__(self, directory: Path) -> None:
        """Make it and write its certificate."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"authority {id(self)}")
        basic = x509.BasicConstraints(ca=True, path_length=None)
        made = _builder(self._name, self._key).issuer_name(self._name).add_extension(basic, critical=True)
        self.pem = made.sign(self._key, SHA256()).public_bytes(Encoding.PEM).decode()
        self.path = directory / f"authority-{id(self)}.pem"
        self.path.write_text(self.pem)

    def subordinate(self) -> tuple[Authority, str]:
        """Another that this one vouches for, and its certificate in PEM; nobody trusts it by itself."""
        other = copy(self)
        other._key = ec.generate_private_key(ec.SECP256R1())
        other._name = _name(f"below {id(other)}")
        basic = x509.BasicConstraints(ca=True, path_length=None)
        made = _builder(other._name, other._key).issuer_name(self._name).add_extension(basic, critical=True)
        return other, made.sign(self._key, SHA256()).public_bytes(Encoding.PEM).decode()

    def revoking(self, *serials: int) -> str:
        """A list of revoked certificates in PEM."""
        now = dt.datetime.now(dt.UTC)
        made = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - WEEK)
            .next_update(now + WEEK)
        )
        for serial in serials:
            revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - WEEK).build()
            made = made.add_revoked_certificate(revoked)
        return made.sign(self._key, SHA256()).public_bytes(Encoding.PEM).decode()

    def identity(self, name: str, *, begins: dt.datetime | None = None, ends: dt.datetime | None = None) -> Identity:
        """A certificate for a host name or an address; good for a week unless said otherwise."""
        key = ec.generate_private_key(ec.SECP256R1())
        basic = x509.BasicConstraints(ca=False, path_length=None)
        certificate = (
            _builder(_name(name), key, begins, ends)
            .issuer_name(self._name)
            .add_extension(basic, critical=True)
            .add_extension(x509.SubjectAlternativeName([_alternative(name)]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, SHA256())
        )
        return Identity(certificate, key)


def _builder(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begins: dt.datetime | None = None,
    ends: dt.datetime | None = None,
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins or now - WEEK)
        .not_valid_after(ends or now + WEEK)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
