"""What the certificates of a run are good for, and for how long."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from sparkcohort.runtime.shell.rpc.certificates import new_authority
from sparkcohort.runtime.shell.rpc.tls import MEMBER_NAME, SERVER_NAME, RunAuthority


@pytest.fixture(scope="module")
def run() -> RunAuthority:
    """One run's."""
    return new_authority()


def _both(run: RunAuthority) -> list[tuple[bytes, bytes, str, x509.ObjectIdentifier]]:
    server = (run.server_certificate, run.server_key, SERVER_NAME, ExtendedKeyUsageOID.SERVER_AUTH)
    return [server, (run.client.certificate, run.client.key, MEMBER_NAME, ExtendedKeyUsageOID.CLIENT_AUTH)]


def test_each_side_has_a_certificate_for_its_name_and_its_use_only(run: RunAuthority) -> None:
    """What an executor is given doesn't make it a coordinator."""
    authority = x509.load_pem_x509_certificate(run.client.authority)
    for pem, key_pem, name, usage in _both(run):
        certificate, key = x509.load_pem_x509_certificate(pem), load_pem_private_key(key_pem, None)
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == [name]
        assert list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [usage]
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        assert key.public_key() == certificate.public_key()
        assert isinstance(key.curve, ec.SECP256R1)


def test_validity_is_bounded_and_lets_clocks_differ(run: RunAuthority) -> None:
    """A clock that is hours behind finds them valid; in twenty years nobody does."""
    now = dt.datetime.now(dt.UTC)
    for pem in (run.client.authority, run.server_certificate, run.client.certificate):
        certificate = x509.load_pem_x509_certificate(pem)
        assert certificate.not_valid_before_utc < now - dt.timedelta(days=365)  # a clock may be set back, far
        assert now + dt.timedelta(days=3000) < certificate.not_valid_after_utc < now + dt.timedelta(days=7300)


def test_the_authority_signs_no_authorities_and_two_runs_share_nothing(run: RunAuthority) -> None:
    """Another run's certificate is a stranger's."""
    authority = x509.load_pem_x509_certificate(run.client.authority)
    basic = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (basic.ca, basic.path_length) == (True, 0)
    other = new_authority()
    with pytest.raises((InvalidSignature, ValueError)):
        x509.load_pem_x509_certificate(other.client.certificate).verify_directly_issued_by(authority)
    assert other.client.token != run.client.token
