"""The token provider of a login by OAUTHBEARER, from our own option and Java's settings.

Sources: Kafka's KIP-255 and KIP-768; ``IAMLoginModule`` of aws-msk-iam-auth, whose mechanism AWS_MSK_IAM brokers offer as
OAUTHBEARER too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from sparkcohort.runtime.errors import OptionError

PROVIDER: Final = "sasl.oauthbearer.provider"
MSK_IAM: Final = "sparkcohort.tokens:msk_iam"
CLIENT_CREDENTIALS: Final = "sparkcohort.tokens:client_credentials"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID: Final = "sasl.oauthbearer.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.secret"  # noqa: S105  a setting's name
GUIDE: Final = "docs/operate/logins.md"
_CONFIG, _METHOD, _MECHANISM = "sasl.oauthbearer.config", "sasl.oauthbearer.method", "sasl.mechanisms"
_GRANT, _METADATA = "sasl.oauthbearer.grant.type", "sasl.oauthbearer.metadata.authentication.type"
_AWS: Final = "AWS_MSK_IAM"
_SHAPE: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_KAFKAS_HANDLER: Final = re.compile(
    r"org\.apache\.kafka\.common\.security\.oauthbearer\.(secured\.)?OAuthBearerLoginCallbackHandler"
)
_IAM_HANDLER: Final = "IAMClientCallbackHandler"
IAM_OPTIONS: Final = (
    "awsRegion",  # ours: the brokers' region, where their names don't have it
    "awsProfileName",
    "awsRoleArn",
    "awsRoleSessionName",
)
_IAM_IDLE: Final = ("awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs")  # tries are ours to pace


def login_handler(java: str) -> dict[str, str]:
    """Settings for ``sasl.login.callback.handler.class``.  Raises OptionError for all but Kafka's own."""
    if _KAFKAS_HANDLER.fullmatch(java):
        return {_METHOD: "oidc"}
    raise OptionError(
        f"option kafka.sasl.login.callback.handler.class={java} is not supported: it is a Java class; leave it out, and set "
        f"kafka.{PROVIDER}=package.module:function, a Python function that makes tokens (see {GUIDE}); or put client credentials "
        "into kafka.sasl.jaas.config, with kafka.sasl.oauthbearer.token.endpoint.url"
    )


def client_handler(java: str) -> dict[str, str]:
    """Settings for ``sasl.client.callback.handler.class``.  Raises OptionError for all but AWS's."""
    if java.rpartition(".")[2] == _IAM_HANDLER:
        return {PROVIDER: MSK_IAM}
    raise OptionError(
        f"option kafka.sasl.client.callback.handler.class={java} is not supported: it is a Java class; put the credentials into "
        f"kafka.sasl.jaas.config, or set kafka.{PROVIDER} (see {GUIDE})"
    )


def iam_module(options: Mapping[str, str]) -> dict[str, str]:
    """Settings for the options of ``IAMLoginModule``.  Raises OptionError for unknown ones."""
    unknown = [name for name in options if name not in (*IAM_OPTIONS, *_IAM_IDLE)]
    if unknown:
        raise OptionError(
            f"option kafka.sasl.jaas.config: IAMLoginModule has no {unknown[0]}; it has {', '.join(IAM_OPTIONS[1:])}"
        )
    settings = [f"{name}={options[name]}" for name in IAM_OPTIONS if name in options]
    return {PROVIDER: MSK_IAM, _CONFIG: shlex.join(settings)} if settings else {PROVIDER: MSK_IAM}


def _by_client_credentials(out: dict[str, str]) -> None:
    """librdkafka's method ``oidc`` with an id and a secret becomes our provider, for the driver's clients and for ours.

    With an assertion (KIP-1139) or a cloud's metadata it stays librdkafka's.
    """
    by_oidc = out.get(_MECHANISM) == "OAUTHBEARER" and out.get(_METHOD, "").lower() == "oidc" and PROVIDER not in out
    logs_in = out.get("security.protocol", "").startswith("sasl_")
    is_other_grant = (
        out.get(_GRANT, "client_credentials") != "client_credentials" or out.get(_METADATA, "none") != "none"
    )
    if not by_oidc or not logs_in or is_other_grant:
        return
    missing = [name for name in (CLIENT_ID, CLIENT_SECRET, ENDPOINT) if not out.get(name)]
    if missing:
        raise OptionError(f"option kafka.{missing[0]} is missing: client credentials (kafka.{_METHOD}=oidc) need it")
    try:
        url = urlsplit(out[ENDPOINT].strip())
        fine = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise OptionError(f"option kafka.{ENDPOINT} must be an address, https://id.example.org/token")
    out[PROVIDER] = CLIENT_CREDENTIALS
    del out[_METHOD]


def completed(conf: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's settings with those that a token provider needs.  Raises OptionError for a setting that contradicts it."""
    settings = dict(conf)
    if settings.get(_MECHANISM, "").upper() == _AWS:
        settings[_MECHANISM] = "OAUTHBEARER"
        settings.setdefault(PROVIDER, MSK_IAM)
    _by_client_credentials(settings)
    name = settings.get(PROVIDER, "")
    if not name:
        settings.pop(PROVIDER, None)
        return settings
    if not _SHAPE.fullmatch(name):
        raise OptionError(f"option kafka.{PROVIDER}={name!r} must be package.module:function")
    if settings.setdefault(_MECHANISM, "OAUTHBEARER") != "OAUTHBEARER":
        raise OptionError(
            f"option kafka.sasl.mechanism={settings[_MECHANISM]} takes no tokens, which kafka.{PROVIDER}={name} makes: set "
            "kafka.sasl.mechanism=OAUTHBEARER, or leave the provider out"
        )
    if settings.get(_METHOD, "default").lower() != "default":
        raise OptionError(
            f"options kafka.{PROVIDER} and kafka.{_METHOD}={settings[_METHOD]} are two ways to tokens: leave one out"
        )
    protocol = settings.get("security.protocol", "plaintext")
    if protocol in ("plaintext", "ssl"):
        problem = (
            f"={protocol.upper()}" if "security.protocol" in settings else " is missing: with PLAINTEXT, its default,"
        )
        raise OptionError(
            f"option kafka.security.protocol{problem} has no login, for which kafka.{PROVIDER}={name} makes tokens: set "
            "kafka.security.protocol=SASL_SSL"
        )
    return settings
