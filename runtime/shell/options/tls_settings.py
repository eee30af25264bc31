"""Java's TLS settings as librdkafka's: stores, PEM as text, protocols, cipher suites.

Sources: Kafka's ``SslConfigs``, ``DefaultSslEngineFactory``, PEM stores (KIP-651); the JSSE's names of cipher suites (RFC
5246, 8446); librdkafka's CONFIGURATION.md.  A setting without an equivalent is refused by name with the remedy.
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
_LINE: Final = 64  # characters of a line of PEM

_TLS13_SUITES: Final = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)  # all of TLS 1.3
_NEWER_NAME: Final = re.compile(r"TLS_(AES|CHACHA20|AEGIS|SM4)_[A-Z0-9_]+")
_JAVAS_NAME: Final = re.compile(r"(?:TLS|SSL)_((?:ECDHE_|DHE_)?(?:RSA|ECDSA|DSS))_WITH_([A-Z0-9_]+)")
_NO_TLS12_SUITE: Final = "PSK-AES128-CBC-SHA"
"""A suite of TLS 1.2 for which we have no key: OpenSSL then offers TLS 1.3 alone.  librdkafka has no setting for that."""
_PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")


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
    data = "".join(inside.split())
    if not _BASE64.fullmatch(data):
        raise OptionError(
            f"option kafka.{name} is not PEM: between BEGIN {kind} and END {kind} there is something else"
        )
    return begin + "".join(f"{data[first : first + _LINE]}\n" for first in range(0, len(data), _LINE)) + end


def ciphers(text: str) -> tuple[str, list[str]]:
    """``ssl.cipher.suites`` in OpenSSL's names, "" for all, and warnings.  Raises OptionError for names that OpenSSL doesn't have.

    librdkafka can choose among the suites of TLS 1.2 only; those of TLS 1.3 it offers all or none.
    """
    names = [name for name in re.split(r"[,:\s]+", text.strip()) if name]
    newer = [name for name in names if _NEWER_NAME.fullmatch(name)]
    older = [_openssl_name(name) for name in names if name not in newer]
    warnings = []
    if newer and set(newer) < set(_TLS13_SUITES):
        warnings.append(
            f"option kafka.ssl.cipher.suites names {', '.join(newer)}, but librdkafka offers all suites of TLS 1.3 alike; "
            "choose them by ssl.cipher.suites of the brokers"
        )
    return ":".join(older) or (_NO_TLS12_SUITE if newer else ""), warnings


def _openssl_name(name: str) -> str:
    """OpenSSL's name for Java's name of a TLS 1.2 suite; OpenSSL's own names stay.

    >>> _openssl_name("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"), _openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA")
    ('ECDHE-RSA-AES256-GCM-SHA384', 'AES128-SHA')
    """
    match = _JAVAS_NAME.fullmatch(name)
    if match is None:
        if "_WITH_" in name or name == "TLS_EMPTY_RENEGOTIATION_INFO_SCSV":
            raise OptionError(
                f"option kafka.ssl.cipher.suites names {name}, which OpenSSL hasn't: leave it out; it has for instance "
                "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
            )
        return name
    exchange, cipher = match.groups()
    cipher = re.sub(r"AES_(128|256)", r"AES\1", cipher)
    cipher = cipher.replace("_CBC", "").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    prefix = "" if exchange == "RSA" else f"{exchange}-"
    return (prefix + cipher).replace("_", "-")


def protocols(name: str, text: str) -> tuple[bool, list[str]]:
    """Whether TLS 1.3 alone is allowed, and warnings.  Raises OptionError where neither 1.2 nor 1.3 is.

    ``name`` is ssl.enabled.protocols or ssl.protocol.  librdkafka has no such setting, and speaks both.
    """
    names = [each.strip() for each in text.split(",") if each.strip()]
    spoken = [each for each in _PROTOCOLS if each in names or (name == "ssl.protocol" and "TLS" in names)]
    if names and not spoken:
        raise OptionError(f"option kafka.{name}={text} is not supported: give {' or '.join(_PROTOCOLS)}")
    if name == "ssl.protocol":  # the newest protocol of Java's engine; ssl.enabled.protocols has those that are allowed
        return False, []
    unspoken = [each for each in names if each not in _PROTOCOLS]
    warnings = [f"option kafka.{name}: {', '.join(unspoken)} is not spoken here"] if unspoken else []
    if spoken == ["TLSv1.2"]:
        warnings.append(
            f"option kafka.{name}={text} leaves TLS 1.3 possible: librdkafka speaks the newest that the broker speaks too; "
            "set ssl.enabled.protocols=TLSv1.2 of the brokers"
        )
    return spoken == ["TLSv1.3"], warnings


def tls_versions(java: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """librdkafka's settings for ssl.enabled.protocols, ssl.protocol and ssl.cipher.suites, and warnings.

    Raises OptionError where they allow no protocol.
    """
    newer_alone = False
    warnings: list[str] = []
    for name in ("ssl.enabled.protocols", "ssl.protocol"):
        is_alone, more = protocols(name, java.get(name, ""))
        newer_alone, warnings = newer_alone or is_alone, [*warnings, *more]
    suite_names, more = ciphers(java.get("ssl.cipher.suites", ""))
    suites = _NO_TLS12_SUITE if newer_alone else suite_names
    return ({"ssl.cipher.suites": suites} if suites else {}), [*warnings, *more]


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
    lower = location.lower()
    if lower.endswith((".p12", ".pfx", ".pkcs12")):
        return "PKCS12"
    return "PEM" if lower.endswith((".pem", ".crt", ".cer")) else "JKS"
