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

_STORES: Final = {
    "ssl.truststore": ("ssl.ca.location",),
    "ssl.keystore": ("ssl.certificate.location", "ssl.key.location"),
}
"""Java's stores, and librdkafka's settings for one in PEM."""
_MAGIC: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----(.*?)-----END \1-----", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\r|\\n|\\t")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def stores(java: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings for the files of ``ssl.truststore.*`` and ``ssl.keystore.*``.

    A PKCS#12 store keeps Java's names; a key store in PEM has certificate and key in one file.  Raises OptionError, which names
    a setting without an equivalent.
    """
    settings: dict[str, str] = {}
    for store, pem_names in _STORES.items():
        location = java.get(f"{store}.location", "")
        if location and _kind(store, location, java.get(f"{store}.type", "")) == "PEM":
            settings |= dict.fromkeys(pem_names, location)
        elif location:
            settings |= {name: java[name] for name in (f"{store}.location", f"{store}.password") if java.get(name)}
    return settings


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


def _kind(store: str, location: str, stated: str) -> str:
    """PEM or PKCS12.  Raises OptionError for Java's own formats.

    Java reads PKCS12 as JKS too (keystore.type.compat), and keytool writes it into files called .jks since Java 9.
    """
    kind = stated.upper().replace("#", "")
    if kind not in ("PEM", "PKCS12"):
        kind = _by_content(location) or kind or ("JKS" if location.lower().endswith(".jks") else "PKCS12")
    if kind in ("PEM", "PKCS12"):
        return kind
    raise OptionError(
        f"option kafka.{store}.type={kind} is not supported: librdkafka reads no Java key stores; convert with "
        f"'keytool -importkeystore -srckeystore {location} -destkeystore store.p12 -deststoretype PKCS12', then set "
        f"kafka.{store}.location=store.p12 and kafka.{store}.type=PKCS12"
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
