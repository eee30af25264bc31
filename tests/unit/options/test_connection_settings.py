"""Which settings a connection without librdkafka honours, which it leaves to librdkafka, and which are wrong."""

from __future__ import annotations

import ssl
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.kafka import addresses
from sparkcohort.runtime.shell.kafka.fetch import connection
from sparkcohort.runtime.shell.kafka.fetch.settings import settings_of
from sparkcohort.runtime.shell.options.connection_settings import Settings, TransportError, unsupported
from sparkcohort.runtime.shell.options.kafka_settings import SETTINGS, OurClient
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.shell.options.tls_settings import TRUSTSTORE, TRUSTSTORE_PASSWORD
from tests.kit.certificates import Authority
from tests.kit.kafka_settings import is_librdkafkas
from tests.kit.options import LEAST

MODULE = "org.apache.kafka.common.security"
USER = 'required username="alice" password="hunter2";'
PLAIN = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule {USER}"}
SCRAM = {"kafka.sasl.mechanism": "SCRAM-SHA-512", "kafka.sasl.jaas.config": f"{MODULE}.scram.ScramLoginModule {USER}"}
ASSERTION = {
    "kafka.sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
    "kafka.sasl.oauthbearer.assertion.file": "{}/me.pem",
}
OAUTH = {
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.jaas.config": f'{MODULE}.oauthbearer.OAuthBearerLoginModule required clientId="a" clientSecret="b";',
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://id.example.org/token",
}


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority's certificate, a client's key and certificate (the key's password is pw), and a store."""
    folder = tmp_path_factory.mktemp("pems")
    authority = Authority(folder)
    me = authority.identity("me")
    (folder / "ca.pem").write_text(authority.pem)
    (folder / "me.pem").write_text(me.key("pw") + me.chain)
    (folder / "me.p12").write_bytes(me.store("pw"))
    return folder


@pytest.mark.parametrize(
    ("protocol", "options", "left_over"),
    [
        ("PLAINTEXT", {}, ""),
        ("SSL", {}, ""),
        ("SSL", {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": "{}/ca.pem"}, ""),
        ("SSL", {"kafka.ssl.ca.location": "{}/ca.pem", "kafka.ssl.endpoint.identification.algorithm": ""}, ""),
        ("SSL", {"kafka.ssl.keystore.location": "{}/me.pem", "kafka.ssl.key.password": "pw"}, ""),
        ("SSL", {"kafka.ssl.keystore.location": "{}/me.p12", "kafka.ssl.keystore.password": "pw"}, ""),
        ("SSL", {"kafka.ssl.cipher.suites": "ECDHE-ECDSA-AES256-GCM-SHA384"}, ""),
        ("SSL", {"kafka.enable.ssl.certificate.verification": "false"}, ""),
        ("SSL", {"kafka.ssl.crl.location": "{}/ca.pem"}, ""),
        ("SSL", {"kafka.ssl.curves.list": "P-256"}, "the setting ssl.curves.list"),
        ("SASL_PLAINTEXT", PLAIN, ""),
        ("SASL_SSL", SCRAM, ""),
        ("SASL_SSL", SCRAM | {"kafka.sasl.mechanism": "SCRAM-SHA-256"}, ""),
        ("SASL_SSL", OAUTH | {"kafka.sasl.oauthbearer.method": "oidc"}, ""),
        ("SASL_SSL", OAUTH | ASSERTION, "the SASL mechanism OAUTHBEARER"),
        ("PLAINTEXT", {"kafka.debug": "fetch"}, ""),
        ("PLAINTEXT", {"kafka.topic.blacklist": "^x"}, ""),
        ("SSL", {"kafka.ssl.sigalgs.list": "RSA+SHA256"}, "the setting ssl.sigalgs.list"),
        ("PLAINTEXT", {"kafka.linger.ms": "5", "kafka.client.rack": "a", "kafka.fetch.max.wait.ms": "100"}, ""),
        (
            "PLAINTEXT",
            {"kafka.client.dns.lookup": "resolve_canonical_bootstrap_servers_only"},
            "client.dns.lookup=resolve_canonical_bootstrap_servers_only",
        ),
    ],
)
def test_what_the_options_come_to(protocol: str, options: dict[str, str], left_over: str, pems: Path) -> None:
    """Options as users write them, translated and with a source's own settings: honoured, or left to librdkafka by name."""
    given = {name: value.replace("{}", str(pems)) for name, value in options.items()}
    conf = settings_of(parse(LEAST | {"kafka.security.protocol": protocol} | given).kafka)
    assert unsupported(conf) == left_over
    if not left_over:
        settings = Settings.parse(conf)
        assert settings.is_tls == protocol.endswith("SSL")
        assert bool(settings.mechanism) == protocol.startswith("SASL")
        assert settings.credentials[1] in ("", "hunter2")
        assert "hunter2" not in repr(settings)
    else:
        with pytest.raises(TransportError, match="librdkafka"):
            Settings.parse(conf)


@pytest.mark.parametrize(
    ("conf", "left_over"),
    [
        ({"statistics.interval.ms": 0}, ""),
        ({"statistics.interval.ms": 5}, "statistics.interval.ms=5"),
        ({"debug": "all"}, ""),
        ({"linger.ms": 5}, ""),
        ({"ssl.curves.list": "P-256"}, ""),  # of no TLS
        ({"sasl.mechanism": "GSSAPI", "security.protocol": "ssl"}, ""),
        ({"fetch.max.wait.ms": 5}, "the setting fetch.max.wait.ms"),
        ({"api.version.request": False}, "api.version.request=false"),
        ({"security.protocol": "sasl_plaintext"}, "the SASL mechanism GSSAPI"),
        ({"security.protocol": "ssl", "ssl.certificate.pem": "x"}, "ssl.certificate.pem without its key"),
        ({"security.protocol": "ssl", "ssl.key.location": "x"}, "ssl.key.location without its certificate"),
        (
            {"security.protocol": "ssl", "ssl.key.location": "x", "ssl.keystore.location": "y"},
            "ssl.key.location and ssl.keystore.location together",
        ),
        ({"heard.of.nowhere": 1}, "the setting heard.of.nowhere"),
    ],
)
def test_what_is_left_to_librdkafka(conf: dict[str, Any], left_over: str) -> None:
    """Call-backs, librdkafka's own debugging, whatever changes the meaning and is not known here."""
    assert unsupported(conf).startswith(left_over)
    assert bool(unsupported(conf)) == bool(left_over)


def test_every_known_name_is_librdkafkas() -> None:
    """A misspelt name in the lists would leave the right one to librdkafka."""
    assert not is_librdkafkas("heard.of.nowhere")
    ours = (TRUSTSTORE, TRUSTSTORE_PASSWORD, "sasl.oauthbearer.provider")  # see certificate_files and tokens
    known = [row.name for row in SETTINGS if row.our_client is not OurClient.UNREACHED and row.name not in ours]
    assert [name for name in known if not is_librdkafkas(name)] == []


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ({"ssl.ca.location": "/nowhere/ca.pem"}, "kafka.ssl.ca.location: .*No such file"),
        ({"ssl.ca.location": "{}/me.p12"}, "kafka.ssl.ca.location: no certificates in PEM"),
        ({"ssl.ca.pem": "hunter2"}, "kafka.ssl.ca.pem: no certificate in PEM"),
        ({"ssl.cipher.suites": "ROT13"}, "kafka.ssl.cipher.suites: no cipher suite"),
        (
            {"ssl.certificate.location": "{}/me.pem", "ssl.key.location": "{}/me.pem", "ssl.key.password": "hunter2"},
            "kafka.ssl.certificate.location and kafka.ssl.key.location: .*ssl.key.password",
        ),
        (
            {"ssl.certificate.location": "{}/me.pem", "ssl.key.location": "{}/me.pem"},  # would ask on a terminal
            "kafka.ssl.certificate.location and kafka.ssl.key.location: .*ssl.key.password",
        ),
        ({"ssl.keystore.location": "{}/me.p12", "ssl.keystore.password": "hunter2"}, "kafka.ssl.keystore.location: no"),
        ({"ssl.keystore.location": "{}/ca.pem"}, "kafka.ssl.keystore.location: no PKCS12"),
        ({"ssl.keystore.location": "{}/none"}, "kafka.ssl.keystore.location: .*No such file"),
        ({"socket.receive.buffer.bytes": "1k"}, "kafka.socket.receive.buffer.bytes=1k: give a whole number"),
    ],
)
def test_settings_that_can_not_be_used(conf: dict[str, str], words: str, pems: Path) -> None:
    """The option is named, and no secret."""
    given = {name: value.replace("{}", str(pems)) for name, value in conf.items()}
    with pytest.raises(TransportError, match=words) as caught:
        Settings.parse({"security.protocol": "ssl"} | given)
    assert "hunter2" not in str(caught.value)


def test_what_is_checked_of_a_broker(pems: Path) -> None:
    """Certificate and name by default; the system's authorities where none is given, and no others where some are."""

    def tls(**more: str) -> ssl.SSLContext:
        made = Settings.parse(
            {"security.protocol": "SSL"} | {k.replace("_", "."): v for k, v in more.items()}
        ).tls_context()
        assert made is not None
        return made

    checked = {
        (context.verify_mode, context.check_hostname)
        for context in (tls(), tls(ssl_endpoint_identification_algorithm="HTTPS"))
    }
    assert checked == {(ssl.CERT_REQUIRED, True)}
    assert not tls(ssl_endpoint_identification_algorithm="none").check_hostname
    assert tls(enable_ssl_certificate_verification="false").verify_mode == ssl.CERT_NONE
    assert len(tls(ssl_ca_location=str(pems / "ca.pem")).get_ca_certs()) == 1
    assert len(tls(ssl_ca_pem=(pems / "ca.pem").read_text()).get_ca_certs()) == 1


def test_files_are_read_for_each_connection(tmp_path: Path) -> None:
    """One that is half written fails that connection, by the option's name; the next one reads it again."""
    authority, path = Authority(tmp_path), tmp_path / "trusted.pem"
    path.write_text(authority.pem)
    settings = Settings.parse({"security.protocol": "ssl", "ssl.ca.location": str(path)})
    path.write_text(authority.pem[:300])
    with pytest.raises(TransportError, match="no certificates in PEM"):
        settings.tls_context()
    path.write_text(2 * authority.pem)
    assert settings.tls_context() is not None


def test_the_version_that_brokers_are_told() -> None:
    """It is the project's."""
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())["project"]
    assert [connection.SOFTWARE_NAME.decode(), connection.SOFTWARE_VERSION.decode()] == [
        project["name"],
        project["version"],
    ]


@pytest.mark.parametrize(
    ("servers", "nodes"),
    [
        ("b1:9093, b2", [("b1", 9093), ("b2", 9092)]),
        ("[::1]:9093,[2001:db8::1]", [("::1", 9093), ("2001:db8::1", 9092)]),
        ("::1,PLAINTEXT://[::1]:9093", [("::1", 9092), ("::1", 9093)]),
    ],
)
def test_brokers_to_start_from_as_librdkafka_reads_them(servers: str, nodes: list[tuple[str, int]]) -> None:
    """An IPv6 address has brackets beside a port, and none for a resolver."""
    assert addresses.servers(servers) == nodes


@pytest.mark.parametrize(
    "servers",
    ["h:70000", "h:0", "h:-5", "h:nine", "h:²", "h:99999999999999999999", ":9092", "b1:9092,a b:1", "h\0:1", "h" * 256],
)
def test_what_is_no_address_is_an_error_of_the_option(servers: str) -> None:
    """It names what is wrong, on one line, before anybody connects anywhere."""
    with pytest.raises(
        OptionError, match=r"option kafka.bootstrap.servers: .*, which is no (port|host); give"
    ) as caught:
        parse(LEAST | {"kafka.bootstrap.servers": servers})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250
