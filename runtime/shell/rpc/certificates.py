"""Certificates of one run: its own authority, and one certificate for each side.

Keys are ECDSA over P-256.  The authority's key exists in memory only, as long as the object.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_SINCE: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
"""Long before the run, so that a wrong clock on an executor or driver doesn't matter; the key is new in each run."""
VALID_FOR: Final = dt.timedelta(days=3650)
"""The certificates of a run are never renewed, so they outlast it."""

SERVER: Final = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT: Final = ExtendedKeyUsageOID.CLIENT_AUTH


class CertificateAndKey(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class CertificateAuthority:
    """Issues the certificates of one run; ``pem`` is its own."""

    def __init__(self) -> None:
        """Make the key, and the certificate that it signs itself: no authorities below it."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority")
        certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(self._key, SHA256())
        )
        self.pem = certificate.public_bytes(Encoding.PEM)

    def issue(self, name: str, usage: x509.ObjectIdentifier) -> CertificateAndKey:
        """A certificate for this host name, to be shown by a ``SERVER`` or by a ``CLIENT`` only."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            _builder(_name(name), self._name, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, SHA256())
        )
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return CertificateAndKey(certificate.public_bytes(Encoding.PEM), pem)


def _name(common_name: str) -> x509.Name:
    run = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "cohort coordinator run")
    return x509.Name([run, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(VALID_SINCE)
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
