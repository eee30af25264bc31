"""Who makes tokens: our own option, and what Java's settings of IAM, Azure, Google and OAuth come to."""

from __future__ import annotations

import shlex

import pytest

from sparkcohort.runtime.shell.options.connection_settings import unsupported
from sparkcohort.runtime.shell.options.parse import SourceOptions
from sparkcohort.runtime.shell.options.token_settings import completed
from tests.kit import options as least

SECURE = {"security.protocol": "SASL_SSL"}
MINE = {"sasl.oauthbearer.provider": "my.tokens:make"}
IAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}
OAUTH = "org.apache.kafka.common.security.oauthbearer"
SHIPPED = "sparkcohort.tokens:msk_iam"


def given(kafka: dict[str, str]) -> SourceOptions:
    """The least options and these ``kafka.*`` ones."""
    return least.given("kafka.", **kafka)


def refused(kafka: dict[str, str]) -> str:
    """The message with which they are refused."""
    return least.refused("kafka.", **kafka)


def test_a_provider_needs_no_mechanism() -> None:
    """There is one that takes tokens; our own client logs in by it too, and nothing is warned of."""
    options = given(SECURE | MINE)
    assert options.kafka["sasl.mechanisms"] == "OAUTHBEARER"
    assert options.kafka["sasl.oauthbearer.provider"] == "my.tokens:make"
    assert options.warnings == ()
    assert unsupported(options.kafka) == ""


@pytest.mark.parametrize(
    ("kafka", "words"),
    [
        (MINE, "kafka.security.protocol is missing"),
        (MINE | {"security.protocol": "SSL"}, "kafka.security.protocol=SSL has no login"),
        (SECURE | MINE | {"sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism=PLAIN takes no tokens"),
        (SECURE | MINE | {"sasl.oauthbearer.method": "oidc"}, "two ways to tokens: leave one out"),
        (SECURE | {"sasl.oauthbearer.provider": "my.tokens.make"}, "must be package.module:function"),
        (SECURE | {"sasl.oauthbearer.provider": "rm -rf:x"}, "must be package.module:function"),
    ],
)
def test_what_contradicts_a_provider(kafka: dict[str, str], words: str) -> None:
    """One error that names the option and what to do."""
    assert words in refused(kafka)


def test_iam_of_java() -> None:
    """The three or four settings that AWS documents, as they are."""
    for kafka in (IAM, {name: IAM[name] for name in ("security.protocol", "sasl.mechanism")}):
        options = given(kafka)
        assert options.kafka["sasl.mechanisms"] == "OAUTHBEARER"
        assert options.kafka["sasl.oauthbearer.provider"] == SHIPPED
        assert "sasl.oauthbearer.config" not in options.kafka
        assert [line for line in options.warnings if "sasl.jaas.config is shown whole" not in line] == []


def test_options_of_iams_login_module() -> None:
    """They are what the provider gets; what concerns tries is ours."""
    jaas = (
        'software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="arn:aws:iam::1:role/r" awsProfileName="my own" '
        "awsRoleSessionName=s awsDebugCreds=true;"
    )
    options = given(IAM | {"sasl.jaas.config": jaas})
    told = shlex.split(options.kafka["sasl.oauthbearer.config"])
    assert told == [
        "awsProfileName=my own",
        "awsRoleArn=arn:aws:iam::1:role/r",
        "awsRoleSessionName=s",
    ]
    mine = given(IAM | {"sasl.jaas.config": jaas} | MINE)
    assert mine.kafka["sasl.oauthbearer.provider"] == "my.tokens:make"
    for name in ("awsRole", "awsRoleExternalId"):
        assert f"IAMLoginModule has no {name}; it has awsProfileName" in refused(
            IAM | {"sasl.jaas.config": f"x.IAMLoginModule required {name}=x;"}
        )


def test_handlers_of_others_that_make_tokens() -> None:
    """Java classes: the error says which option takes their place."""
    handler = "com.google.cloud.hosted.kafka.auth.GcpLoginCallbackHandler"
    message = refused(SECURE | {"sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": handler})
    assert "see docs/operate/logins.md" in message
    assert "set kafka.sasl.oauthbearer.provider=package.module:function" in message


@pytest.mark.parametrize("package", [OAUTH, f"{OAUTH}.secured"])
def test_kafkas_own_handler(package: str) -> None:
    """It asks a token endpoint with client credentials (KIP-768), as a provider of ours does."""
    kafka = SECURE | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example.org/token",
        "sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required clientId="a" clientSecret="b";',
    }
    options = given(kafka)
    assert options.kafka["sasl.oauthbearer.provider"] == "sparkcohort.tokens:client_credentials"
    assert "sasl.oauthbearer.method" not in options.kafka


CLIENT: dict[str, str] = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "a",
    "sasl.oauthbearer.client.secret": "b",
    "sasl.oauthbearer.token.endpoint.url": "https://id.example.org/token",
}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sasl.oauthbearer.client.id": ""}, "option kafka.sasl.oauthbearer.client.id is missing: client credentials"),
        ({"sasl.oauthbearer.client.secret": ""}, "option kafka.sasl.oauthbearer.client.secret is missing"),
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "option kafka.sasl.oauthbearer.token.endpoint.url is missing"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://x/y"}, "must be an address, https://"),
        ({"sasl.oauthbearer.token.endpoint.url": "https:///token"}, "must be an address, https://"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://x:y/token"}, "must be an address, https://"),
    ],
)
def test_client_credentials_that_are_not_whole(changed: dict[str, str], words: str) -> None:
    """What is missing is told when the options are read, by its name."""
    assert words in refused(SECURE | CLIENT | changed)


@pytest.mark.parametrize(
    "more",
    [
        {
            "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "sasl.oauthbearer.assertion.file": "/x",
        },
        {"sasl.oauthbearer.metadata.authentication.type": "azure_imds", "sasl.oauthbearer.config": "query=x"},
    ],
)
def test_other_ways_of_oidc_stay_librdkafkas(more: dict[str, str]) -> None:
    """An assertion or a cloud's metadata instead of a secret."""
    conf = completed({"security.protocol": "sasl_ssl", "sasl.mechanisms": "OAUTHBEARER"} | CLIENT | more)
    assert conf["sasl.oauthbearer.method"] == "oidc"
    assert "sasl.oauthbearer.provider" not in conf


def test_another_handler_of_the_client() -> None:
    """Refused, with what to do."""
    message = refused(SECURE | {"sasl.client.callback.handler.class": "org.example.Handler"})
    assert "option kafka.sasl.client.callback.handler.class=org.example.Handler is not supported" in message
    assert "kafka.sasl.oauthbearer.provider" in message
