"""Trust stores that librdkafka can't read itself, and changes of certificate files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sparkcohort.runtime.shell.options.tls_settings import TRUSTSTORE, TRUSTSTORE_PASSWORD

FILES: Final = (
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.crl.location",
    "ssl.key.location",
    "ssl.keystore.location",
    TRUSTSTORE,
)


def with_trusted_certificates(conf: Mapping[str, Any]) -> dict[str, Any]:
    """librdkafka's settings, with the certificates of a PKCS#12 trust store as PEM.

    Raises ValueError, which names the option, where the store can't be read.
    """
    settings = dict(conf)
    location, password = str(settings.pop(TRUSTSTORE, "")), str(settings.pop(TRUSTSTORE_PASSWORD, ""))
    if location and not any(settings.get(name) for name in ("ssl.ca.location", "ssl.ca.pem")):
        try:
            data = Path(location).read_bytes()
        except OSError as error:
            raise ValueError(f"option kafka.{TRUSTSTORE}: {location} {error.strerror}") from None
        settings["ssl.ca.pem"] = trusted(data, password)
    return settings


def trusted(data: bytes, password: str) -> str:
    """All certificates of a PKCS#12 store in PEM.  Raises ValueError, without the password, when it can't be opened."""
    try:
        _, certificates = open_store(data, password)
    except ValueError:
        raise ValueError(
            f"option kafka.{TRUSTSTORE}: no PKCS12 trust store that kafka.{TRUSTSTORE_PASSWORD} opens"
        ) from None
    if not certificates:
        raise ValueError(f"option kafka.{TRUSTSTORE}: there is no certificate in it")
    return certificates


def open_store(data: bytes, password: str) -> tuple[str, str]:
    """The key of a PKCS#12 store, "" without one, and its certificates, in PEM.  Raises ValueError when it can't be opened."""
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  slow to come, and seldom needed
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    try:
        store = pkcs12.load_pkcs12(data, password.encode() or None)
    except (TypeError, UnsupportedAlgorithm):
        raise ValueError from None
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode() if store.key else ""
    chain = [*([store.cert] if store.cert else []), *store.additional_certs]
    return key, "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in chain)


class ChangedFiles:
    """Whether the files that settings name have changed, for who lets go of a client then; for one thread."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Remember the files as they are now."""
        self._paths = [str(conf[name]) for name in FILES if conf.get(name) and conf[name] != "probe"]
        self._stamps = self._read_stamps()

    def have_changed(self) -> bool:
        """Whether the files have changed since this was asked last: librdkafka reads them when a client is made, never again."""
        former, self._stamps = self._stamps, self._read_stamps()
        return former != self._stamps

    def _read_stamps(self) -> list[tuple[int, int, int]]:
        """Inode, time and size of each file; no file is read."""
        return [_stamp(path) for path in self._paths]


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size
