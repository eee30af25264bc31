"""Certificates of one run: its own authority, and one certificate for each side.

Keys are ECDSA over P-256.  The authority's key is forgotten with the call.  Agents make none, so they don't import this: it would
be a tenth of their start.
"""

from __future__ import annotations

import datetime as dt
import secrets
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sparkcohort.runtime.shell.rpc.tls import MEMBER_NAME, SERVER_NAME, Credentials, RunAuthority

VALID_SINCE: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
"""Long before the run, so that a wrong clock on an executor or driver doesn't matter; the key is new in each run."""
VALID_FOR: Final = dt.timedelta(days=3650)
"""The certificates of a run are never renewed, so they outlast it."""


def new_authority() -> RunAuthority:
    """Make a certificate authority for this run, a certificate for each side, and a token, all in memory."""
    key, name = ec.generate_private_key(ec.SECP256R1()), _name("authority")
    certificate = (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)  # no authorities below it
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, SHA256())
    )
    server = _issue(key, name, SERVER_NAME, ExtendedKeyUsageOID.SERVER_AUTH)
    client = _issue(key, name, MEMBER_NAME, ExtendedKeyUsageOID.CLIENT_AUTH)
    return RunAuthority(*server, Credentials(certificate.public_bytes(Encoding.PEM), *client, secrets.token_hex(32)))


def _issue(
    authority: ec.EllipticCurvePrivateKey, issuer: x509.Name, name: str, usage: x509.ObjectIdentifier
) -> tuple[bytes, bytes]:
    """A certificate for this host name and use, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_name(name), issuer, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), pem


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
