"""Tokens for Amazon MSK with IAM, by AWS's own signer (the extra ``aws``): what Java's ``IAMLoginModule`` does.

A token is a signed request that never leaves this process until a broker gets it; signing needs credentials and no network.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from typing import Final

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.shell.options.token_settings import IAM_OPTIONS

_REGION: Final = re.compile(
    r"\.kafka(?:-serverless)?\.([a-z]{2}[a-z0-9-]+-\d+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?(?::|,|$)"
)
_CONFIG: Final = "kafka.sasl.oauthbearer.config"
_SESSION: Final = "sparkcohort"


def msk_iam(settings: Mapping[str, str]) -> tuple[str, float]:
    """A token for the brokers of these settings, and its end in seconds since 1970.

    ``sasl.oauthbearer.config`` may have ``name=value`` of IAMLoginModule's options, and ``awsRegion``.  Raises CohortError for
    what is missing, and whatever AWS's libraries raise.
    """
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer  # noqa: N813, PLC0415  an extra
    except ImportError as error:
        raise CohortError(
            f"AWS's signer is missing ({error.name}): pip install 'sparkcohort[aws]' where driver and executors run"
        ) from None
    config = _pairs(settings.get("sasl.oauthbearer.config", ""))
    region = _region(config, settings.get("bootstrap.servers", ""))
    if "awsRoleArn" in config:
        session = config.get("awsRoleSessionName", _SESSION)
        signed = signer.generate_auth_token_from_role_arn(region, config["awsRoleArn"], session)
    elif "awsProfileName" in config:
        signed = signer.generate_auth_token_from_profile(region, config["awsProfileName"])
    else:
        signed = signer.generate_auth_token(region)
    token, ends_ms = signed
    return str(token), int(ends_ms) / 1000


def _pairs(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = [""]
    pairs = dict(word.partition("=")[::2] for word in words)
    unknown = [name for name in pairs if name not in IAM_OPTIONS]
    if unknown:
        raise CohortError(f"option {_CONFIG} is malformed: give name=value name=value, with {', '.join(IAM_OPTIONS)}")
    if "awsRoleArn" in pairs and "awsProfileName" in pairs:
        raise CohortError(f"option {_CONFIG} has awsRoleArn and awsProfileName: let the profile name the role")
    return pairs


def _region(config: Mapping[str, str], servers: str) -> str:
    """Of the brokers: as given, as their names tell, as the environment has it."""
    if "awsRegion" in config:
        return config["awsRegion"]
    if match := _REGION.search(servers):
        return match[1]
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise CohortError(
            f"kafka.bootstrap.servers={servers} does not tell a region, as b-1.….kafka.eu-west-1.amazonaws.com:9098 does: set "
            f"{_CONFIG}=awsRegion=eu-west-1 (yours), or AWS_REGION where driver and executors run"
        )
    return region
