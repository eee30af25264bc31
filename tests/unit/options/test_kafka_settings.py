"""``kafka.*`` options: translated to librdkafka's words, refused by name, never shown when secret."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from sparkcohort.runtime.shell.options.kafka_settings import ROWS, Fate, names
from sparkcohort.runtime.shell.options.kafka_translate import in_librdkafkas_words
from sparkcohort.runtime.shell.options.security_settings import (
    SENSITIVE,
    SPARK_REDACTS,
    is_sensitive,
    redact,
    redact_text,
    shown_by_spark,
)
from tests.kit import options as least

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PASSWORD = 'p"w;=x y'
given, refused = partial(least.given, "kafka."), partial(least.refused, "kafka.")


@pytest.mark.parametrize("name", names(Fate.REFUSED))
def test_refused_settings_are_named_with_a_reason(name: str) -> None:
    """What belongs to the source cannot be set; the message says why or what to use."""
    message = refused(**{name.replace(".", "__"): "x"})
    assert f"kafka.{name} " in message
    assert ROWS[name].reason in message


@pytest.mark.parametrize("name", names(Fate.NO_EFFECT))
def test_settings_without_effect_warn_once(name: str) -> None:
    """A harmless Java setting is accepted with one warning."""
    options = given(**{name.replace(".", "__"): "1"})
    assert [name in warning for warning in options.warnings] == [True]
    assert name not in options.kafka


@pytest.mark.parametrize(
    ("java", "value", "name", "translated"),
    [
        ("fetch.max.wait.ms", "100", "fetch.wait.max.ms", "100"),
        ("receive.buffer.bytes", "1048576", "socket.receive.buffer.bytes", "1048576"),
        ("request.timeout.ms", "30000", "socket.timeout.ms", "30000"),
        ("max.partition.fetch.bytes", "2097152", "max.partition.fetch.bytes", "2097152"),
        ("isolation.level", "READ_COMMITTED", "isolation.level", "read_committed"),
        ("ssl.endpoint.identification.algorithm", "", "ssl.endpoint.identification.algorithm", "none"),
        ("client.dns.lookup", "use_all_dns_ips", "client.dns.lookup", "use_all_dns_ips"),
        ("queued.min.messages", "5000", "queued.min.messages", "5000"),
    ],
)
def test_consumer_settings_in_librdkafkas_words(java: str, value: str, name: str, translated: str) -> None:
    """Java's names of what librdkafka has too are understood; librdkafka's own names pass."""
    assert given(**{java.replace(".", "__"): value}).kafka[name] == translated


@pytest.mark.parametrize("name", ["receive.buffer.bytes", "send.buffer.bytes", "connections.max.idle.ms"])
def test_javas_word_for_no_limit(name: str) -> None:
    """It is librdkafka's default."""
    options = given(**{name.replace(".", "__"): "-1"})
    assert (options.kafka, options.warnings) == (given().kafka, given().warnings)


def test_two_names_of_one_setting() -> None:
    """Java's and librdkafka's name with different values contradict each other."""
    message = refused(fetch__max__wait__ms="1", fetch__wait__max__ms="2")
    assert "kafka.fetch.max.wait.ms" in message
    assert "kafka.fetch.wait.max.ms" in message


def test_unknown_settings_name_the_nearest() -> None:
    """librdkafka's own list decides what exists."""
    assert "kafka.fetch.min.bytes" in refused(fetch__min__byte="1")
    assert "unknown" in refused(no__such__thing="1")


def test_bad_values_name_the_option_as_it_was_given() -> None:
    """The user's spelling is used, also where the setting was renamed."""
    assert refused(fetch__min__bytes="few").startswith("option kafka.fetch.min.bytes: Invalid value")
    assert refused(request__timeout__ms="-1").startswith("option kafka.request.timeout.ms=-1 ")
    assert refused(socket__timeout__ms="1").startswith("option kafka.socket.timeout.ms=1 ")
    assert refused(queued__min__messages=str(2**40)).startswith("option kafka.queued.min.messages=1099511627776 ")
    assert refused(security__protocol="TLS").startswith("option kafka.security.protocol:")
    assert refused(security__protocol="SSL", ssl__ca__location="/no/such/file").startswith(
        "option kafka.ssl.ca.location:"
    )


def test_producer_settings_warn() -> None:
    """A setting of producers passes with librdkafka's own warning."""
    (warning,) = given(linger__ms="5").warnings
    assert "producer" in warning


@pytest.mark.parametrize(("module", "mechanism"), [(PLAIN, "PLAIN"), (SCRAM, "SCRAM-SHA-512")])
def test_jaas_user_and_password(module: str, mechanism: str) -> None:
    """Login modules with user and password, quoted as JAAS allows."""
    escaped = PASSWORD.replace('"', '\\"')
    jaas = f'{module} required username="alice" password="{escaped}" ;'
    conf = given(security__protocol="SASL_SSL", sasl__mechanism=mechanism, sasl__jaas__config=jaas).kafka
    assert (conf["sasl.username"], conf["sasl.password"]) == ("alice", PASSWORD)
    assert (conf["security.protocol"], conf["sasl.mechanisms"]) == ("sasl_ssl", mechanism)


def test_jaas_oauth() -> None:
    """Client credentials of KIP-768 become our provider of tokens, librdkafka's names of them its settings."""
    jaas = f'{OAUTH} required clientId="me" clientSecret="s3cret" scope="kafka" extension_logicalCluster="lkc-1";'
    conf = given(
        security__protocol="SASL_SSL",
        sasl__mechanism="OAUTHBEARER",
        sasl__jaas__config=jaas,
        sasl__login__callback__handler__class=HANDLER,
        sasl__oauthbearer__token__endpoint__url="https://id.example.org/token",
    ).kafka
    assert conf["sasl.oauthbearer.provider"] == "sparkcohort.tokens:client_credentials"
    assert "sasl.oauthbearer.method" not in conf
    assert conf["sasl.oauthbearer.client.id"] == "me"
    assert conf["sasl.oauthbearer.client.secret"] == "s3cret"
    assert conf["sasl.oauthbearer.extensions"] == "logicalCluster=lkc-1"


@pytest.mark.parametrize(
    "jaas",
    [
        "nonsense hunter2",
        f'{PLAIN} required username="hunter2";',
        f'{SCRAM} required username="a" password="hunter2" tokenauth="true";',
        'com.example.OurLoginModule required password="hunter2";',
        f'{OAUTH} required unsecuredLoginStringClaim_sub="hunter2";',
    ],
)
def test_jaas_that_cannot_be_translated(jaas: str) -> None:
    """The option is named, its text never quoted."""
    message = refused(sasl__jaas__config=jaas)
    assert "kafka.sasl.jaas.config" in message
    assert "hunter2" not in message


def test_pem_stores(tmp_path: Path) -> None:
    """PEM stores by location and by value (KIP-651) become librdkafka's files and texts."""
    conf, _ = in_librdkafkas_words(
        {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(tmp_path / "me.pem"),
            "ssl.key.password": "k",
        }
    )
    assert conf == {
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "me.pem"),
        "ssl.key.location": str(tmp_path / "me.pem"),
        "ssl.key.password": "k",
    }
    texts = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    texts |= {
        f"ssl.{name}": f"-----BEGIN IT-----{end}QUJD{end}-----END IT-----"
        for name, end in (
            ("truststore.certificates", " "),
            ("keystore.certificate.chain", r"\n"),
            ("keystore.key", "\n"),
        )
    }
    whole = "-----BEGIN IT-----\nQUJD\n-----END IT-----\n"
    assert in_librdkafkas_words(texts)[0] == {"ssl.ca.pem": whole, "ssl.certificate.pem": whole, "ssl.key.pem": whole}


def test_pkcs12_key_store() -> None:
    """librdkafka reads PKCS12 key stores as they are."""
    conf, _ = in_librdkafkas_words({"ssl.keystore.location": "/k/me.p12", "ssl.keystore.password": "p"})
    assert conf == {"ssl.keystore.location": "/k/me.p12", "ssl.keystore.password": "p"}


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_java_key_stores_are_refused_with_the_remedy(store: str) -> None:
    """JKS is Java's default type; the message has the command that converts it."""
    message = refused(**{f"ssl__{store}__location": "/k/store.jks", f"ssl__{store}__password": "hunter2"})
    assert f"kafka.ssl.{store}.type=JKS" in message
    assert "keytool -importkeystore" in message
    assert "hunter2" not in message


def test_stores_are_known_by_their_first_bytes(tmp_path: Path) -> None:
    """Java reads PKCS12 as JKS too, and its keytool writes it into files called .jks."""
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\x30\x82\x01\x02")
    assert in_librdkafkas_words({"ssl.truststore.location": str(store), "ssl.truststore.password": "p"})[0] == {
        "ssl.truststore.location": str(store),
        "ssl.truststore.password": "p",
    }
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    assert "kafka.ssl.truststore.type=JKS" in refused(ssl__truststore__location=str(store))


@pytest.mark.parametrize("data", [None, b"", b"0\x82nothing"])
def test_trust_stores_that_cannot_be_read(tmp_path: Path, data: bytes | None) -> None:
    """The option is named, the password never."""
    store = tmp_path / "trust.p12"
    if data is not None:
        store.write_bytes(data)
    message = refused(
        security__protocol="SSL", ssl__truststore__location=str(store), ssl__truststore__password="hunter2"
    )
    assert message.startswith("option kafka.ssl.truststore.location: ")
    assert "hunter2" not in message


@pytest.mark.parametrize("text", ["nonsense hunter2", "-----BEGIN PRIVATE KEY----- hunter!2 -----END PRIVATE KEY-----"])
def test_what_is_no_pem(text: str) -> None:
    """The option is named, the text never quoted."""
    message = refused(ssl__keystore__key=text)
    assert message.startswith("option kafka.ssl.keystore.key is not PEM: ")
    assert "hunter" not in message


@pytest.mark.parametrize(
    ("name", "fate"),
    [
        ("config.providers.env.class", "is not supported: values are not looked up; read the secret"),
        ("metrics.context.app", "no effect"),
        ("metrics.jmx.include", "no effect"),
    ],
)
def test_names_by_their_beginnings(name: str, fate: str) -> None:
    """Families of names that Kafka's clients take by their prefix."""
    settings = {name.replace(".", "__"): "x"}
    text = refused(**settings) if fate.startswith("is not supported") else " ".join(given(**settings).warnings)
    assert f"kafka.{name} " in text
    assert fate in text


def test_values_that_say_what_is_done_anyway() -> None:
    """Java's own defaults of what is refused are no error."""
    options = given(
        group__protocol="classic", sasl__oauthbearer__header__urlencode="FALSE", ssl__enabled__protocols="TLSv1.2"
    )
    assert not options.warnings
    assert "group.protocol" not in options.kafka


def test_what_the_library_was_built_without() -> None:
    """A mechanism that the installed librdkafka lacks is an error at once, not at the first connection."""
    assert "kafka.sasl.mechanism" in refused(security__protocol="SASL_PLAINTEXT", sasl__mechanism="GSSAPI-X")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl__mechanism": "GSSAPI"}, "kafka.sasl.mechanism=GSSAPI (Kerberos)"),
        ({}, "kafka.sasl.mechanism is missing, and its default GSSAPI (Kerberos)"),
        ({"sasl__jaas__config": "x.Krb5LoginModule required principal=p;"}, "kafka.sasl.mechanism=GSSAPI (Kerberos)"),
    ],
)
def test_kerberos_is_not_in_what_pip_installs(settings: dict[str, str], words: str) -> None:
    """The message says what there is instead; docs/migrate-from-spark-kafka.md says the same."""
    message = refused(security__protocol="SASL_SSL", **settings)
    assert f"option {words} is not in this confluent-kafka, which has PLAIN, SCRAM, OAUTHBEARER: set" in message


@pytest.mark.parametrize("name", sorted(SENSITIVE))
def test_every_secret_is_hidden_by_spark_or_warned_of(name: str) -> None:
    """What Spark's default redaction doesn't know is one warning; what it knows, or what is a file's name, is none."""
    known = SPARK_REDACTS.search(name) is not None or name.endswith(".file")
    assert shown_by_spark({name: "x"}) == ([] if known else [name])
    assert shown_by_spark({name: 'user="a" password="b"'}) == []


def test_a_secret_given_inline_is_warned_of_once() -> None:
    """By name, with the remedy, and without its value."""
    (warning,) = given(sasl__oauthbearer__config="principal=hunter2").warnings
    assert warning.startswith("option kafka.sasl.oauthbearer.config is shown whole by df.explain(True)")
    assert "spark.redaction.regex" in warning
    assert "hunter2" not in warning


def test_no_secret_is_ever_shown() -> None:
    """Neither a repr nor an error shows the value of a sensitive option."""
    options = given(
        security__protocol="SASL_SSL",
        sasl__mechanism="PLAIN",
        sasl__jaas__config=f'{PLAIN} required username="alice" password="hunter2";',
    )
    assert options.kafka["sasl.password"] == "hunter2"
    assert "hunter2" not in repr(options)
    assert "hunter2" not in str(options)


@pytest.mark.parametrize("name", sorted(SENSITIVE))
def test_sensitive_names(name: str) -> None:
    """Every sensitive name is redacted, with and without the prefix, in any case."""
    assert is_sensitive(name)
    assert is_sensitive(f"kafka.{name}".upper())
    assert redact({name: "hunter2", "client.id": "me"})["client.id"] == "me"
    assert "hunter2" not in str(redact({name: "hunter2"}))
    assert "hunter2" not in redact_text("wrong: hunter2", {name: "hunter2"})


def test_what_is_no_secret_is_shown() -> None:
    """Redaction leaves what helps to find a mistake."""
    names = ["sasl.username", "ssl.ca.location", "sasl.oauthbearer.token.endpoint.url", "security.protocol"]
    assert [is_sensitive(name) for name in names] == [False] * 4
