"""librdkafka's settings for our own connections: which of them we support, and their values.

Sources: librdkafka's CONFIGURATION.md, and ``rdkafka_ssl.c`` for which trusted certificates and keys it takes.  A name that
is not known here is never taken for harmless: ``unsupported`` names it, and confluent-kafka's consumer reads instead.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from sparkcohort.runtime.shell.options.certificate_files import open_store, with_trusted_certificates
from sparkcohort.runtime.shell.options.kafka_settings import OTHER_LOGINS_BEGIN, ROWS, UNKNOWN, OurClient, value_of
from sparkcohort.runtime.shell.options.security_settings import redact_text
from sparkcohort.runtime.shell.options.tls_settings import TRUSTSTORE
from sparkcohort.runtime.text import printable

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
BEARER = "OAUTHBEARER"  # with a provider: librdkafka has the other ways to tokens, assertions and clouds' metadata
_FAMILIES = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}
_TRUE = ("true", "t", "1")

# Where systems keep the certificates they trust; librdkafka, which brings an OpenSSL of its own, looks there too.
_BUNDLES = (
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs/ca-certificates.crt",
)


class TransportError(Exception):
    """A connection failed or ended: the message names the broker or the option, and the remedy; never a secret.

    The message is one printable line, also with a broker's text in it.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class ConnectionRefused(TransportError):
    """The broker refuses the login, maybe only for now: a new password may not have reached all brokers yet.

    Or we refuse the broker: its certificate is not trusted, or it did not prove that it knows the password.  librdkafka must not be
    tried then: it may check less.
    """


class UnsupportedBroker(TransportError):
    """The broker works, but needs a feature that only librdkafka has."""


def unsupported(conf: Mapping[str, Any]) -> str:
    """The first of these librdkafka settings that can't be honoured here, as a phrase for a log line; "" when all can.

    Their values are those that librdkafka takes (``kafka_check``).
    """
    texts = _texts(conf)
    protocol = str(value_of(texts, "security.protocol")).lower()
    for name, value in conf.items():
        row = ROWS.get(name, UNKNOWN)
        idle = name.startswith(OTHER_LOGINS_BEGIN) or (name.startswith("ssl.") and not protocol.endswith("ssl"))
        if row.our_client in (OurClient.UNABLE, OurClient.UNREACHED) and not idle:
            return f"the setting {name}"
        if row.our_values and _text(value).strip().lower() not in row.our_values:
            return f"{name}={_text(value)}"
    wrong = _unsupported_login(texts) if protocol.startswith("sasl_") else ""
    return wrong or (_unsupported_tls(texts) if protocol.endswith("ssl") else "")


def _unsupported_login(texts: Mapping[str, str]) -> str:
    mechanism = _mechanism(texts)
    if mechanism == BEARER and "sasl.oauthbearer.provider" in texts:
        return ""
    return "" if mechanism in MECHANISMS else f"the SASL mechanism {mechanism}"


def _unsupported_tls(texts: Mapping[str, str]) -> str:
    certificates = [name for name in ("ssl.certificate.location", "ssl.certificate.pem") if name in texts]
    keys = [name for name in ("ssl.key.location", "ssl.key.pem") if name in texts]
    stores = [name for name in ("ssl.keystore.location",) if name in texts]
    if len(certificates + stores) > 1 or len(keys + stores) > 1:
        return f"{' and '.join(certificates + keys + stores)} together"
    if len(certificates) != len(keys):
        return f"{(certificates + keys)[0]} without its {'key' if certificates else 'certificate'}"
    return ""


@dataclass(frozen=True)
class Settings:
    """The settings of all connections of one client; files of certificates are read for each connection."""

    mechanism: str  # "" without SASL
    client_id: str
    family: int  # socket.AF_*
    keepalive: bool
    receive_buffer: int  # bytes; 0 is the system's
    send_buffer: int
    setup_timeout_s: float
    is_tls: bool
    conf: Mapping[str, Any] = field(repr=False)  # all settings, also for token providers

    @classmethod
    def parse(cls, conf: Mapping[str, Any]) -> Self:
        """Read librdkafka's settings; raises UnsupportedBroker for what ``unsupported`` names, TransportError for unusable files."""
        wrong = unsupported(conf)
        if wrong:
            raise UnsupportedBroker(f"no connection without librdkafka: {wrong}")
        texts = _texts(conf)
        protocol = str(value_of(texts, "security.protocol")).lower()
        login = protocol.startswith("sasl_")
        settings = cls(
            mechanism=_mechanism(texts) if login else "",
            client_id=str(value_of(texts, "client.id")),  # the name that a broker's quotas know librdkafka by
            family=_FAMILIES[str(value_of(texts, "broker.address.family")).lower()],
            keepalive=_flag(texts, "socket.keepalive.enable"),
            receive_buffer=_number(texts, "socket.receive.buffer.bytes"),
            send_buffer=_number(texts, "socket.send.buffer.bytes"),
            setup_timeout_s=_number(texts, "socket.connection.setup.timeout.ms") / 1000,
            is_tls=protocol.endswith("ssl"),
            conf=dict(conf),
        )
        settings.tls_context()  # a file that can't be used is an error now
        return settings

    @property
    def credentials(self) -> tuple[str, str]:
        """User and password for the next connection."""
        texts = _texts(self.conf) if self.mechanism else {}
        return texts.get("sasl.username", ""), texts.get("sasl.password", "")

    def tls_context(self) -> ssl.SSLContext | None:
        """For the next connection; None without TLS.  Raises TransportError for files that can't be used (now)."""
        return _tls(_texts(self.conf)) if self.is_tls else None

    def redacted(self, text: str) -> str:
        """A text of a broker or library without the secrets of these settings."""
        return redact_text(text, self.conf)


# --- values ---------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(conf: Mapping[str, Any]) -> dict[str, str]:
    """The settings as text, without empty ones, which librdkafka treats as unset."""
    texts = {name: _text(value) for name, value in conf.items()}
    return {name: value for name, value in texts.items() if value}


def _mechanism(texts: Mapping[str, str]) -> str:
    mechanisms = [value for name, value in texts.items() if name in ("sasl.mechanism", "sasl.mechanisms")]
    return mechanisms[-1] if mechanisms else str(value_of(texts, "sasl.mechanisms"))


def _flag(texts: Mapping[str, str], name: str) -> bool:
    return str(value_of(texts, name)).lower() in _TRUE


def _number(texts: Mapping[str, str], name: str) -> int:
    try:
        return int(value_of(texts, name))
    except ValueError:  # librdkafka takes 1k, as 1
        raise TransportError(f"option kafka.{name}={texts[name]}: give a whole number") from None


# --- TLS ------------------------------------------------------------------------------------------


def _tls(texts: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    verify = _flag(texts, "enable.ssl.certificate.verification")
    check_name = str(value_of(texts, "ssl.endpoint.identification.algorithm")).lower() == "https"
    context.check_hostname = verify and check_name
    context.verify_mode = ssl.CERT_REQUIRED if verify else ssl.CERT_NONE
    if "ssl.cipher.suites" in texts:
        with _naming("ssl.cipher.suites", "no cipher suite that OpenSSL knows by this name"):
            context.set_ciphers(texts["ssl.cipher.suites"])
    _trust(context, texts)
    _identify(context, texts)
    return context


def _trust(context: ssl.SSLContext, texts: Mapping[str, str]) -> None:
    """Trust the given certificates, else the system's, as librdkafka does."""
    location, pem = texts.get("ssl.ca.location", ""), texts.get("ssl.ca.pem", "")
    if texts.get(TRUSTSTORE) and not location and not pem:
        pem = _trusted(texts)
    if location and location != "probe":
        with _naming("ssl.ca.location", "no certificates in PEM there"):
            directory = Path(location).is_dir()
            context.load_verify_locations(None if directory else location, location if directory else None)
    if pem:
        with _naming("ssl.ca.pem", "no certificate in PEM"), _file(pem.encode()) as path:
            context.load_verify_locations(path)
    revoked = texts.get("ssl.crl.location", "")
    if revoked:
        with _naming("ssl.crl.location", "no list of revoked certificates in PEM there"):
            context.load_verify_locations(revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if location in ("", "probe") and not pem:
        bundle = next((path for path in _BUNDLES if Path(path).exists()), None)
        if bundle:
            context.load_verify_locations(bundle)
        else:
            context.load_default_certs()


def _trusted(texts: Mapping[str, str]) -> str:
    try:
        return str(with_trusted_certificates(texts)["ssl.ca.pem"])
    except ValueError as error:
        raise TransportError(str(error)) from None


def _identify(context: ssl.SSLContext, texts: Mapping[str, str]) -> None:
    """Load our own certificate and its key, where given."""
    store, password = texts.get("ssl.keystore.location", ""), texts.get("ssl.key.password", "")
    if store:
        with _naming("ssl.keystore.location", "no PKCS12 key store that this password opens"):
            own_key, chain = open_store(Path(store).read_bytes(), texts.get("ssl.keystore.password", ""))
            with _file((own_key + chain).encode()) as path:
                context.load_cert_chain(path, password="")
        return
    certificate = next((name for name in ("ssl.certificate.location", "ssl.certificate.pem") if name in texts), None)
    key = next((name for name in ("ssl.key.location", "ssl.key.pem") if name in texts), None)
    if certificate and key:
        problem = "no certificate with its private key in PEM, or ssl.key.password is not the key's"
        with (
            _naming(f"{certificate} and kafka.{key}", problem),
            _place(certificate, texts) as cert,
            _place(key, texts) as own,
        ):
            # Never without a password: OpenSSL would ask for it on a terminal.
            context.load_cert_chain(cert, own, password)


@contextmanager
def _place(name: str, texts: Mapping[str, str]) -> Iterator[str]:
    """The path of a certificate or key that an option gives as a path or as text."""
    if name.endswith(".location"):
        yield texts[name]
    else:
        with _file(texts[name].encode()) as path:
            yield path


@contextmanager
def _file(data: bytes) -> Iterator[str]:
    """A path where OpenSSL can read these bytes; they stay in this process's memory."""
    descriptor = os.memfd_create("pem")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@contextmanager
def _naming(name: str, problem: str) -> Iterator[None]:
    """Raise TransportError with the option's name, without the library's text, which may quote a secret."""
    try:
        yield
    except (ssl.SSLError, ValueError):
        raise TransportError(f"option kafka.{name}: {problem}") from None
    except OSError as error:
        raise TransportError(f"option kafka.{name}: {error.filename or ''} {error.strerror}") from None
