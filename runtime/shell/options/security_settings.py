"""Java's security settings in librdkafka's words, and which settings are secret.

Sources: Kafka's ``SaslConfigs``, ``SslConfigs``, ``JaasContext`` (KIP-85), PEM stores (KIP-651), OAuth (KIP-768);
librdkafka's CONFIGURATION.md.  Whatever cannot be said to librdkafka is refused by name with the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import token_settings
from sparkcohort.runtime.shell.options.kafka_settings.rows import SETTINGS
from sparkcohort.runtime.text import printable

REDACTED = "[redacted]"

SENSITIVE = frozenset(row.name for row in SETTINGS if row.secret)
_SENSITIVE_WORD = re.compile(
    r"password|passphrase|secret|jaas|credential|private\.key|key\.pem|(^|[._])token$", re.IGNORECASE
)


def is_sensitive(name: str) -> bool:
    """Whether the value of this option (with or without ``kafka.``) must never be shown."""
    bare = name.lower().removeprefix("kafka.")
    return bare in SENSITIVE or _SENSITIVE_WORD.search(bare) is not None


SPARK_REDACTS = re.compile("(?i)secret|password|token|access[.]?key")
"""The default of ``spark.redaction.regex``; Spark hides an option whose name *or value* it finds something in."""


def shown_by_spark(java: Mapping[str, str]) -> list[str]:
    """The secrets among these (bare) settings that Spark's default redaction leaves in plans, in order of names."""
    return sorted(
        name
        for name, value in java.items()
        if is_sensitive(name) and not name.endswith(".file") and not SPARK_REDACTS.search(f"{name}={value}")
    )


def redact(conf: Mapping[str, str]) -> dict[str, str]:
    """The same settings with the secret values replaced, fit for a log line or a repr."""
    return {name: REDACTED if is_sensitive(name) else str(value) for name, value in conf.items()}


def redact_text(text: str, conf: Mapping[str, str]) -> str:
    """The same text without the secret values of ``conf``, should a library have quoted one."""
    said = [str(value) for name, value in conf.items() if is_sensitive(name) and value]
    secrets = {*said, *(printable(value, 10 * len(value)) for value in said)}
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


_STORE_KEYS = ("type", "location", "password")


def stores_and_login(java: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings for Java's stores and logins (the table's ``Fate.TRANSLATED``), which belong together.

    Raises ``OptionError`` naming what cannot be said to librdkafka.
    """
    left = dict(java)
    return _truststore(left) | _keystore(left) | _login(left)


def _take(left: dict[str, str], prefix: str) -> dict[str, str]:
    return {key: left.pop(f"{prefix}.{key}") for key in _STORE_KEYS if f"{prefix}.{key}" in left}


def _truststore(left: dict[str, str]) -> dict[str, str]:
    """``ssl.truststore.*``: PEM only, since librdkafka reads no other kind of trust store."""
    store = _take(left, "ssl.truststore")
    kind = _store_type(store, "ssl.truststore", "kafka.ssl.ca.location=ca.pem")
    if kind == "PEM" and "location" in store:
        return {"ssl.ca.location": store["location"]}
    if kind == "PKCS12":
        raise OptionError(
            "option kafka.ssl.truststore.type=PKCS12 is not supported: librdkafka reads trusted certificates "
            "as PEM only; convert with "
            "'openssl pkcs12 -in truststore.p12 -nokeys -out ca.pem' and set kafka.ssl.ca.location=ca.pem"
        )
    return {}


def _keystore(left: dict[str, str]) -> dict[str, str]:
    """``ssl.keystore.*``: PKCS12 as it is, PEM as certificate and key in one file."""
    store = _take(left, "ssl.keystore")
    kind = _store_type(store, "ssl.keystore", "kafka.ssl.keystore.type=PKCS12")
    if kind == "PKCS12":
        out = {"ssl.keystore.location": store.get("location", "")}
        return out | ({"ssl.keystore.password": store["password"]} if "password" in store else {})
    if kind == "PEM" and "location" in store:
        return {"ssl.certificate.location": store["location"], "ssl.key.location": store["location"]}
    return {}


def _store_type(store: Mapping[str, str], name: str, remedy: str) -> str:
    """PEM, PKCS12 or "" (no store given); Java's default JKS is refused, unless the file's name says better."""
    if "location" not in store:
        return store.get("type", "").upper() if store.get("type", "").upper() == "PEM" else ""
    kind = store.get("type", "").upper() or _type_by_name(store["location"])
    if kind in ("PEM", "PKCS12"):
        return kind
    convert = (
        f"'keytool -importkeystore -srckeystore {store['location']} -destkeystore store.p12 -deststoretype PKCS12'"
    )
    more = "" if name == "ssl.keystore" else " and 'openssl pkcs12 -in store.p12 -nokeys -out ca.pem'"
    raise OptionError(
        f"option kafka.{name}.type={kind} is not supported: librdkafka reads no Java key stores; convert with "
        f"{convert}{more}, then set {remedy}"
    )


def _type_by_name(location: str) -> str:
    lower = location.lower()
    if lower.endswith((".p12", ".pfx", ".pkcs12")):
        return "PKCS12"
    return "PEM" if lower.endswith((".pem", ".crt", ".cer")) else "JKS"


# --- login ----------------------------------------------------------------------------------------


def _login(left: dict[str, str]) -> dict[str, str]:
    """``sasl.jaas.config`` and the call-back handlers."""
    handler = left.pop("sasl.login.callback.handler.class", None)
    out: dict[str, str] = {}
    if handler is not None:
        out |= token_settings.login_handler(handler)
    handler = left.pop("sasl.client.callback.handler.class", None)
    if handler is not None:
        out |= token_settings.client_handler(handler)
    jaas = left.pop("sasl.jaas.config", None)
    if jaas is not None:
        out |= _jaas(jaas)
    return out


_JAAS = re.compile(
    r"^\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*$",
    re.IGNORECASE | re.DOTALL,
)
_JAAS_OPTION = re.compile(r"""([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")


def _jaas(text: str) -> dict[str, str]:
    """``<login module> required key="value" ...;`` as librdkafka's settings; never quotes the text in an error."""
    match = _JAAS.match(text)
    if match is None:
        raise OptionError(
            'option kafka.sasl.jaas.config is malformed: expected <login module class> required key="value" ...;'
        )
    module = match["module"].rpartition(".")[2]
    options = {
        key: _unescape(double or single or bare) for key, double, single, bare in _JAAS_OPTION.findall(match["options"])
    }
    if module in ("PlainLoginModule", "ScramLoginModule"):
        return _credentials(module, options)
    if module == "OAuthBearerLoginModule":
        return _oauth(options)
    if module == "Krb5LoginModule":
        return _kerberos(options)
    if module == "IAMLoginModule":
        return token_settings.iam_module(options)
    raise OptionError(
        f"option kafka.sasl.jaas.config names the login module {module}; supported: PlainLoginModule, "
        "ScramLoginModule, OAuthBearerLoginModule, IAMLoginModule, Krb5LoginModule"
    )


def _unescape(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value)


def _credentials(module: str, options: Mapping[str, str]) -> dict[str, str]:
    if options.get("tokenauth", "").lower() == "true":
        raise OptionError(
            "option kafka.sasl.jaas.config has tokenauth=true: delegation tokens are not supported by "
            "librdkafka; use a SCRAM or PLAIN user"
        )
    missing = [key for key in ("username", "password") if key not in options]
    if missing:
        raise OptionError(f"option kafka.sasl.jaas.config: {module} needs {' and '.join(missing)}")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _oauth(options: Mapping[str, str]) -> dict[str, str]:
    names = {
        "clientId": "sasl.oauthbearer.client.id",
        "clientSecret": "sasl.oauthbearer.client.secret",
        "scope": "sasl.oauthbearer.scope",
    }
    out = {names[key]: value for key, value in options.items() if key in names}
    extensions = [
        f"{key.removeprefix('extension_')}={value}" for key, value in options.items() if key.startswith("extension_")
    ]
    if extensions:
        out["sasl.oauthbearer.extensions"] = ",".join(extensions)
    if any(key.startswith("unsecuredLoginStringClaim_") for key in options):
        raise OptionError(
            "option kafka.sasl.jaas.config asks for unsecured tokens; set kafka.sasl.oauthbearer.config and "
            "kafka.enable.sasl.oauthbearer.unsecure.jwt for a test"
        )
    return out | ({"sasl.oauthbearer.method": "oidc"} if out else {})


def _kerberos(options: Mapping[str, str]) -> dict[str, str]:
    names = {
        "keyTab": "sasl.kerberos.keytab",
        "principal": "sasl.kerberos.principal",
        "serviceName": "sasl.kerberos.service.name",
    }
    return {names[key]: value for key, value in options.items() if key in names}
