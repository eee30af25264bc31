"""No secret in what is shown, however short; and no gap that tells which word it was."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse
from sparkcohort.runtime.shell.options.redaction import REDACTED, WITHHELD, redact_secrets
from sparkcohort.runtime.shell.values.registry_settings import RegistrySettings
from tests.kit.options import LEAST

TEXTS = (
    "No provider for SASL mechanism PLAIN: recompile librdkafka with libsasl2 or openssl support",
    "sasl_ssl://broker.example.org:9092/bootstrap: SASL authentication error: Authentication failed",
    "_TRANSPORT: kafka:9092/1: Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 3 ms in state CONNECT)",
    "ssl.key.location failed: error:1E08010C:DECODER routines::unsupported",
)
QUOTES = (
    "password {}",
    "password={}",
    'user "alice", password "{}"',
    "alice:{}",
    "it was [{}].",
    r"\x00alice\x00{}",
    "{}",
)
SECRETS = st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1, max_size=20)


@given(secret=SECRETS, before=st.sampled_from(TEXTS), quote=st.sampled_from(QUOTES))
@example(secret="p", before=TEXTS[0], quote=QUOTES[0])
@example(secret="kafka", before=TEXTS[2], quote=QUOTES[1])
def test_a_secret_that_is_quoted_is_never_shown(secret: str, before: str, quote: str) -> None:
    """Whatever it is and however it is quoted: it is taken out, or all of the text is."""
    shown = redact_secrets(f"{before}; {quote.format(secret)}", [secret])
    if not re.search(r"\w", secret):
        return  # a secret of marks alone is what every sentence has
    assert shown == WITHHELD or quote.format(secret) not in shown


@given(secret=SECRETS, text=st.sampled_from(TEXTS))
@example(secret="p", text=TEXTS[0])
@example(secret="provide", text=TEXTS[0])
@example(secret="provider", text=TEXTS[0])
@example(secret="kafka", text=TEXTS[2])
def test_ordinary_words_stay_whole(secret: str, text: str) -> None:
    """No gap within a word, and none that a reader could fill: a text is whole, or not there at all."""
    shown = redact_secrets(text, [secret])
    if shown not in (text, WITHHELD):
        assert REDACTED in shown
        assert len(secret) >= 6
        assert not secret.isalnum() or not (secret.isalpha() or secret.isdigit())
    if len(secret) < 6 and not re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", text):
        assert shown == text


@pytest.mark.parametrize(
    ("secret", "shown"),
    [
        ("p", TEXTS[2]),
        ("kafka", TEXTS[2]),  # a host of an address
        ("refused", WITHHELD),
        ("ms", WITHHELD),
    ],
)
def test_words_of_addresses_tell_nothing(secret: str, shown: str) -> None:
    """Who has a password like a host's name still sees which broker is meant."""
    assert redact_secrets(TEXTS[2], [secret]) == shown


def test_what_no_text_has_by_chance_is_taken_out_of_words() -> None:
    """From six characters on, with more than letters or digits."""
    assert [redact_secrets("id_s3cr3t_5", [secret]) for secret in ("s3cr3t", "s3cr3")] == [
        f"id_{REDACTED}_5",
        "id_s3cr3t_5",
    ]


def test_a_line_of_a_key_is_a_secret_too() -> None:
    """A library that quotes a line of PEM doesn't quote all of it."""
    pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n"
    assert redact_secrets("bad line MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", [pem]) == f"bad line {REDACTED}"
    assert redact_secrets("expecting: -----BEGIN PRIVATE KEY-----", [pem]) == "expecting: -----BEGIN PRIVATE KEY-----"


PASSWORD_OPTIONS = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "alice",
}
FAULTS: tuple[dict[str, str], ...] = (
    {},
    {"kafka.sasl.mechanism": "GSSAPI-X"},
    {"kafka.sasl.mechanism": "GSSAPI"},
    {"kafka.ssl.ca.location": "/no/such/file"},
    {"kafka.socket.timeout.ms": "1"},
    {"kafka.no.such.thing": "1"},
    {"kafka.fetch.min.bytes": "-1"},
    {"kafka.ssl.truststore.location": "/no/such.p12"},
)


@given(
    secret=st.sampled_from(("p", "o", "-", "provider", "SASL", "kafka", "hunter2", "s3cr3t!!")),
    fault=st.sampled_from(FAULTS),
)
def test_errors_of_options_are_whole_and_have_no_secret(secret: str, fault: dict[str, str]) -> None:
    """As with a password that is in no text: letter by letter, or with the library's words withheld."""
    given_options = {**LEAST, **PASSWORD_OPTIONS, **fault}

    def said(password: str) -> str:
        try:
            read = parse({**given_options, "kafka.sasl.password": password})
        except OptionError as error:
            return str(error)
        assert isinstance(read, SourceOptions)
        return repr(read) + repr(read.warnings)

    plain, shown = said("Zq7#unlikely"), said(secret)
    assert "Zq7" not in plain
    assert shown == plain or WITHHELD in shown
    assert REDACTED not in shown or REDACTED in plain


def test_a_registrys_address_loses_its_login_alone() -> None:
    """By its place, not by its value."""
    settings = RegistrySettings({"url": "http://e:r@registry.example.org:8081"})
    assert settings.place == "http://[redacted]@registry.example.org:8081"
    assert settings.redacted("http://e:r@registry: error") == "http://[redacted]@registry: error"


def test_a_registrys_password_is_a_secret_as_it_is_decoded_too() -> None:
    """An address has it with escapes, an error may have it without."""
    settings = RegistrySettings({"url": "http://e:p%40ss-w0rd@registry.example.org:8081"})
    for password in ("p%40ss-w0rd", "p@ss-w0rd"):
        assert settings.redacted(f"no login with {password}") == f"no login with {REDACTED}"
