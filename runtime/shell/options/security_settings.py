"""Java's security settings as librdkafka's, and the names of secret settings.

Sources: Kafka's ``SaslConfigs``, ``SslConfigs``, ``JaasContext`` (KIP-85), PEM stores (KIP-651), OAuth (KIP-768);
librdkafka's CONFIGURATION.md.  A setting that librdkafka has no equivalent for is refused by name with the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import redaction, tls_settings, token_settings
from sparkcohort.runtime.shell.options.kafka_settings import SETTINGS

SENSITIVE = frozenset(row.name for row in SETTINGS if row.secret)
_SENSITIVE_WORD = re.compile(
    r"password|passphrase|secret|jaas|credential|private\.key|key\.pem|(^|[._])token$", re.IGNORECASE
)


def is_sensitive(name: str) -> bool:
    """Whether the value of this option (with or without ``kafka.``) must never be shown."""
    bare = name.lower().removeprefix("kafka.")
    return bare in SENSITIVE or _SENSITIVE_WORD.search(bare) is not None


SPARK_REDACTS = re.compile("(?i)secret|password|token|access[.]?key")
"""The default of ``spark.redaction.regex``; Spark hides an option whose name *or value* matches."""


def shown_by_spark(java: Mapping[str, str]) -> list[str]:
    """The names of secrets (without ``kafka.``) that Spark's default redaction shows in plans, in order."""
    return sorted(
        name
        for name, value in java.items()
        if is_sensitive(name) and not name.endswith(".file") and not SPARK_REDACTS.search(f"{name}={value}")
    )


def redact(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings with secret values replaced, for a log line or a repr."""
    return {name: redaction.REDACTED if is_sensitive(name) else str(value) for name, value in conf.items()}


def redact_text(text: str, conf: Mapping[str, str]) -> str:
    """A text of a library or a broker without the secret values of ``conf`` (see ``redaction``)."""
    return redaction.redact_secrets(text, [str(value) for name, value in conf.items() if is_sensitive(name) and value])


_JAAS = re.compile(
    r"^\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*$",
    re.IGNORECASE | re.DOTALL,
)
_JAAS_OPTION = re.compile(r"""([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")


def _jaas(text: str) -> dict[str, str]:
    """``<login module> required key="value" ...;`` as librdkafka's settings; an error never quotes the text."""
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
            "option kafka.sasl.jaas.config has tokenauth=true: librdkafka logs in by no delegation token; give the login of "
            "the token's owner, SCRAM, PLAIN or OAUTHBEARER, or a client certificate"
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
    settings = {names[key]: value for key, value in options.items() if key in names}
    extensions = [
        f"{key.removeprefix('extension_')}={value}" for key, value in options.items() if key.startswith("extension_")
    ]
    if extensions:
        settings["sasl.oauthbearer.extensions"] = ",".join(extensions)
    if any(key.startswith("unsecuredLoginStringClaim_") for key in options):
        raise OptionError(
            "option kafka.sasl.jaas.config asks for unsecured tokens; set kafka.sasl.oauthbearer.config and "
            "kafka.enable.sasl.oauthbearer.unsecure.jwt for a test"
        )
    return settings | ({"sasl.oauthbearer.method": "oidc"} if settings else {})


_ASSERTION = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_RETRIEVERS = {
    "": {},
    "DefaultJwtRetriever": {},
    "ClientCredentialsJwtRetriever": {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.grant.type": "client_credentials",
    },
    "JwtBearerJwtRetriever": {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.grant.type": _ASSERTION},
}


def _retriever(java: str) -> dict[str, str]:
    """``sasl.oauthbearer.jwt.retriever.class`` (KIP-1139): librdkafka has those that ask a token endpoint."""
    name = java.strip().removeprefix("class ").rpartition(".")[2]
    if name in _RETRIEVERS:
        return _RETRIEVERS[name]
    raise OptionError(
        f"option kafka.sasl.oauthbearer.jwt.retriever.class={java} is not supported: it is a Java class; have a Python "
        "function make the tokens, kafka.sasl.oauthbearer.provider=package.module:function, or use "
        "ClientCredentialsJwtRetriever or JwtBearerJwtRetriever"
    )


def _kerberos(options: Mapping[str, str]) -> dict[str, str]:
    names = {
        "keyTab": "sasl.kerberos.keytab",
        "principal": "sasl.kerberos.principal",
        "serviceName": "sasl.kerberos.service.name",
    }
    return {names[key]: value for key, value in options.items() if key in names}


_LOGIN = {
    "sasl.login.callback.handler.class": token_settings.login_handler,
    "sasl.client.callback.handler.class": token_settings.client_handler,
    "sasl.oauthbearer.jwt.retriever.class": _retriever,
    "sasl.jaas.config": _jaas,
}
"""In this order: a later one takes precedence."""


def stores_and_login(java: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings for Java's stores and logins (the table's ``Fate.TRANSLATED``).

    Raises OptionError, which names a setting without an equivalent.
    """
    settings = tls_settings.stores(java)
    for name, translate in _LOGIN.items():
        if name in java:
            settings |= translate(java[name])
    return settings
