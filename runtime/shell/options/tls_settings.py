"""Java's TLS settings as librdkafka's: stores, and PEM as text.

Sources: Kafka's ``SslConfigs``, ``DefaultSslEngineFactory``, PEM stores (KIP-651); librdkafka's CONFIGURATION.md.  A setting
without an equivalent is refused by name with the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sparkcohort.runtime.errors import OptionError

TRUSTSTORE: Final = "ssl.truststore.location"
"""A PKCS#12 store of trusted certificates; librdkafka can't read it, ``certificate_files`` does."""
TRUSTSTORE_PASSWORD: Final = "ssl.truststore.password"  # noqa: S105  a setting's name
PEM_TEXTS: Final = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")

_STORE_KEYS: Final = ("type", "location", "password")
_MAGIC: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----(.*?)-----END \1-----", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\r|\\n|\\t")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def stores(java: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings for the files of ``ssl.truststore.*`` and ``ssl.keystore.*``.

    A PKCS#12 trust store keeps Java's names.  Raises OptionError, which names a setting without an equivalent.
    """
    return _truststore(_store_options(java, "ssl.truststore")) | _keystore(_store_options(java, "ssl.keystore"))


def pem(name: str, text: str) -> str:
    r"""PEM with line ends; a properties file may have spaces or the letters ``\n`` in their place.

    ``name`` is the user's.  Raises OptionError, which never quotes the text.
    """
    plain = _ESCAPED.sub("\n", text)
    blocks = [_block(name, *match.groups()) for match in _BLOCK.finditer(plain)]
    if not blocks:
        raise OptionError(
            f"option kafka.{name} is not PEM: expected -----BEGIN …----- and -----END …----- around it; give a file's place "
            "by its option .location"
        )
    return "".join(blocks)


def _block(name: str, kind: str, inside: str) -> str:
    begin, end = f"-----BEGIN {kind}-----\n", f"-----END {kind}-----\n"
    if ":" in inside:  # headers of an encrypted key in OpenSSL's older form: their lines must stay as they are
        return begin + inside.strip("\r\n ") + "\n" + end
    lines = inside.split()
    if not all(_BASE64.fullmatch(line) for line in lines):
        raise OptionError(
            f"option kafka.{name} is not PEM: between BEGIN {kind} and END {kind} there is something else"
        )
    return begin + "".join(f"{line}\n" for line in lines) + end


def _store_options(java: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key: java[f"{prefix}.{key}"] for key in _STORE_KEYS if java.get(f"{prefix}.{key}", "") != ""}


def _truststore(store: Mapping[str, str]) -> dict[str, str]:
    kind = _kind(store, "ssl.truststore", "kafka.ssl.truststore.type=PKCS12")
    if kind == "PEM":
        return {"ssl.ca.location": store["location"]}
    if kind != "PKCS12":
        return {}
    return {TRUSTSTORE: store["location"]} | ({TRUSTSTORE_PASSWORD: store["password"]} if "password" in store else {})


def _keystore(store: Mapping[str, str]) -> dict[str, str]:
    """A key store in PKCS12, or PEM with certificate and key in one file."""
    kind = _kind(store, "ssl.keystore", "kafka.ssl.keystore.type=PKCS12")
    if kind == "PEM":
        return {"ssl.certificate.location": store["location"], "ssl.key.location": store["location"]}
    if kind != "PKCS12":
        return {}
    settings = {"ssl.keystore.location": store["location"]}
    return settings | ({"ssl.keystore.password": store["password"]} if "password" in store else {})


def _kind(store: Mapping[str, str], name: str, remedy: str) -> str:
    """PEM, PKCS12, or "" (no file given).  Raises OptionError for Java's own formats.

    Java reads PKCS12 as JKS too (keystore.type.compat), and keytool writes it into files called .jks since Java 9.
    """
    stated = store.get("type", "").upper().replace("#", "")
    if "location" not in store:
        return ""
    location = store["location"]
    kind = stated if stated in ("PEM", "PKCS12") else _by_content(location) or stated or _by_name(location)
    if kind in ("PEM", "PKCS12"):
        return kind
    raise OptionError(
        f"option kafka.{name}.type={kind} is not supported: librdkafka reads no Java key stores; convert with "
        f"'keytool -importkeystore -srckeystore {location} -destkeystore store.p12 -deststoretype PKCS12', then set "
        f"kafka.{name}.location=store.p12 and {remedy}"
    )


def _by_content(location: str) -> str:
    """The type of a store by its first bytes; "" where it is unknown, or the file can't be read here."""
    try:
        with Path(location).open("rb") as file:
            first = file.read(4096)
    except (OSError, ValueError):
        return ""
    if b"-----BEGIN " in first:
        return "PEM"
    return _MAGIC.get(first[:4], "PKCS12" if first[:1] == b"\x30" else "")


def _by_name(location: str) -> str:
    return "JKS" if location.lower().endswith(".jks") else "PKCS12"
