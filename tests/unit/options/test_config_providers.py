"""``kafka.config.providers``: values that stand in files, folders of secrets and the environment, as Kafka's clients look them up."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.cli.client_config import client_config
from sparkcohort.runtime.shell.options.certificate_files import ChangedFiles
from sparkcohort.runtime.shell.options.connection_settings import Settings, unsupported
from sparkcohort.runtime.shell.options.late_values import with_values
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse
from sparkcohort.runtime.shell.options.security_settings import redact_text

LEAST = {"kafka.bootstrap.servers": "b1:9092", "subscribe": "orders", "group.id": "billing"}
CLASSES = "org.apache.kafka.common.config.provider"
NAMED = {
    "config.providers": "file, dir,Env",
    "config.providers.file.class": f"{CLASSES}.FileConfigProvider",
    "config.providers.dir.class": f"{CLASSES}.DirectoryConfigProvider",
    "config.providers.Env.class": f"{CLASSES}.EnvVarConfigProvider",
}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
SECRET = "hunter2-of-alice"


def given(**kafka: str) -> SourceOptions:
    """The least options, the three providers and these ``kafka.*`` ones (``__`` stands for a dot)."""
    more = NAMED | {name.replace("__", "."): value for name, value in kafka.items()}
    return parse(LEAST | {f"kafka.{name}": value for name, value in more.items()})


def login(place: str, **more: str) -> SourceOptions:
    """A login whose user and password stand there, by the keys ``user`` and ``password``."""
    jaas = f'{SCRAM} username="${{{place}:user}}" password="${{{place}:password}}";'
    return given(security__protocol="SASL_PLAINTEXT", sasl__mechanism="SCRAM-SHA-512", sasl__jaas__config=jaas, **more)


def refused(**kafka: str) -> str:
    """The message with which they are refused."""
    with pytest.raises(OptionError) as caught:
        given(**kafka)
    return str(caught.value)


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """A file with a login."""
    path = tmp_path / "login.properties"
    path.write_text(f"# of billing\nuser = alice\npassword: {SECRET}\n")
    return path


def test_a_file_a_folder_and_the_environment(properties: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each gives its values as they are, several of them in one value, and what is no secret is an ordinary setting."""
    (properties.parent / "password").write_text(SECRET)
    monkeypatch.setenv("LOGIN", "alice")
    jaas = f'{SCRAM} username="${{Env:LOGIN}}" password="${{dir:{properties.parent}:password}}";'
    for options in (
        login(f"file:{properties}"),
        given(
            security__protocol="SASL_PLAINTEXT",
            sasl__mechanism="SCRAM-SHA-512",
            sasl__jaas__config=jaas,
            client__id="${Env:LOGIN}-${Env::LOGIN}",
        ),
    ):
        whole = with_values(options.kafka)
        assert (whole["sasl.username"], whole["sasl.password"]) == ("alice", SECRET)
        assert whole["security.protocol"] == "sasl_plaintext"
        assert options.warnings == ()
    assert options.kafka["client.id"] == "alice-alice"


def test_secrets_do_not_travel(properties: Path) -> None:
    """What goes to Spark, to executors and into files has where they stand; errors of others are shown without them all the same."""
    options = login(f"file:{properties}")
    assert SECRET not in str(dict(options.kafka)) and SECRET not in repr(options)
    with_values(options.kafka)
    assert redact_text(f"denied: {SECRET}", options.kafka) == "denied: [redacted]"


def test_the_next_client_has_what_the_file_has_then(properties: Path) -> None:
    """Our own client as well; the driver makes new clients when the file is another; the former password is still hidden."""
    options = login(f"file:{properties}")
    assert unsupported(options.kafka) == ""
    settings, files = Settings.of(options.kafka), ChangedFiles(options.kafka)
    assert settings.credentials == ("alice", SECRET)
    released: list[str] = []
    files.let_go(lambda: released.append("too soon"))
    properties.write_text("user=bob\npassword=renewed-1\n")
    for _ in range(2):
        files.let_go(lambda: released.append("once"))
    assert released == ["once"]
    assert settings.credentials == ("bob", "renewed-1")
    text = redact_text(f"not {SECRET}, but renewed-1", options.kafka)
    assert text == "not [redacted], but [redacted]"


def test_a_file_that_cannot_be_used_any_more(properties: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may be half written: what was read before counts, and one line says so."""
    options = login(f"file:{properties}")
    before = with_values(options.kafka)
    properties.write_text("user=bob\n")
    assert with_values(options.kafka) == before
    assert f"changed files are not taken up: option kafka.sasl.jaas.config: {properties} has no password" in caplog.text


def test_the_commands_properties(properties: Path) -> None:
    """``--command-config`` of the command ``cohort``, as Kafka's own tools take it: names of providers in any case."""
    lines = NAMED | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    lines |= {"sasl.username": "${Env:PATH}", "sasl.password": f"${{file:{properties}:password}}"}
    config = properties.with_name("client.properties")
    config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    conf = client_config("b1:9092", str(config))
    assert (conf["sasl.username"], conf["sasl.password"]) == (os.environ["PATH"], SECRET)
    assert not any(name.startswith("config.providers") for name in conf)


def test_brokers_that_stand_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked up before they are checked as addresses, for a query and for the commands; ``--bootstrap-server`` is before them."""
    monkeypatch.setenv("BROKERS", " b1:9092,b2:9093\n")
    options = given(bootstrap__servers="${Env:BROKERS}")
    assert options.bootstrap_servers == options.kafka["bootstrap.servers"] == "b1:9092,b2:9093"
    assert given(bootstrap__servers="${Env:BROKERS},b3:1").bootstrap_servers == "b1:9092,b2:9093,b3:1"
    config = tmp_path / "client.properties"
    config.write_text(
        "".join(f"{name}={text}\n" for name, text in (NAMED | {"bootstrap.servers": "${Env:BROKERS}"}).items())
    )
    assert client_config(None, str(config))["bootstrap.servers"] == "b1:9092,b2:9093"
    assert client_config("b4:9092", str(config))["bootstrap.servers"] == "b4:9092"


def test_addresses_that_are_none_are_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference may be to a wrong key."""
    monkeypatch.setenv("BROKERS", f"{SECRET}:of the:day")
    assert refused(bootstrap__servers="${Env:BROKERS}") == (
        "option kafka.bootstrap.servers: there are no addresses where ${Env:BROKERS} is; give host:port,host:port"
    )


@pytest.mark.parametrize("name", ["group.id", "session.timeout.ms", "metadata.max.age.ms", "default.api.timeout.ms"])
def test_our_own_options_are_not_looked_up(name: str) -> None:
    """They have Kafka's names, and no client gets them: a reference would be taken as it is written."""
    options = {key: text for key, text in LEAST.items() if key != name}
    options |= {f"kafka.{each}": text for each, text in (NAMED | {name: "${Env:PATH}"}).items()}
    with pytest.raises(
        OptionError, match=rf"^option kafka\.{name} refers to a value, and none is looked up for it: give"
    ):
        parse(options)


def test_files_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    """A part of a file would be taken for its value; as much as the limit is whole."""
    path = tmp_path / "long"
    path.write_bytes(b"key=value\n" + b"#" * ((1 << 20) - 10))
    assert given(client__id=f"${{file:{path}:key}}").kafka["client.id"] == "value"
    with path.open("ab") as file:
        file.write(b"#")
    for reference in (f"${{file:{path}:key}}", f"${{dir:{tmp_path}:long}}"):
        assert refused(client__id=reference) == (
            f"option kafka.client.id: {path} has more than 1048576 bytes, the most that are read: name the value's own file"
        )


def test_what_has_no_provider_stays_as_it_is() -> None:
    """A password may have a dollar and braces."""
    options = parse(LEAST | {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.password": "${file:a:b}"})
    assert options.kafka["sasl.password"] == "${file:a:b}"
    assert given(client__id="$x{y}").kafka["client.id"] == "$x{y}"


LATE_LOGINS = {
    "an extension of OAuth": (
        "OAUTHBEARER",
        "oauthbearer.OAuthBearerLoginModule",
        'clientId="a" clientSecret="b" extension_key="{}"',
    ),
    "a scope of OAuth": (
        "OAUTHBEARER",
        "oauthbearer.OAuthBearerLoginModule",
        'clientId="a" clientSecret="b" scope="{}"',
    ),
    "a key of AWS": ("AWS_MSK_IAM", "IAMLoginModule", 'awsRoleSecretAccessKey="{}"'),
    "a password": ("PLAIN", "plain.PlainLoginModule", 'username="alice" password="{}"'),
}


@pytest.mark.parametrize(("mechanism", "module", "options"), LATE_LOGINS.values(), ids=LATE_LOGINS)
def test_nothing_of_a_login_travels(mechanism: str, module: str, options: str, properties: Path) -> None:
    """Whatever part of it refers to a file: the value is in no setting and in no plan, renewed with the file, and never shown."""
    jaas = f"org.apache.kafka.common.security.{module} required {options.format(f'${{file:{properties}:password}}')};"
    made = given(
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism=mechanism,
        sasl__jaas__config=jaas,
        sasl__oauthbearer__token__endpoint__url="https://id.example.org/token",
    )
    assert SECRET not in str(dict(made.kafka)) and SECRET.encode() not in pickle.dumps(made)
    assert SECRET in str(with_values(made.kafka))
    properties.write_text("password=renewed-1\n")
    assert "renewed-1" in str(with_values(made.kafka))
    shown = redact_text(f"not {SECRET}, but key=renewed-1", made.kafka)
    assert shown == "not [redacted], but key=[redacted]"


WRONG_KEYS: dict[str, dict[str, str]] = {
    "security.protocol": {},
    "sasl.mechanism": {"security.protocol": "SASL_SSL"},
    "sasl.mechanisms": {"security.protocol": "SASL_SSL"},
    "fetch.max.bytes": {},
    "fetch.min.bytes": {},
    "isolation.level": {},
    "auto.offset.reset": {},
    "socket.keepalive.enable": {},
    "sasl.login.callback.handler.class": {},
    "sasl.client.callback.handler.class": {},
    "sasl.oauthbearer.jwt.retriever.class": {},
    "sasl.oauthbearer.provider": {},
    "sasl.oauthbearer.method": {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
    "sasl.jaas.config": {},
    "ssl.enabled.protocols": {},
    "ssl.truststore.type": {"ssl.truststore.location": "/none"},
    "ssl.truststore.location": {"ssl.truststore.type": "PKCS12"},
    "ssl.ca.location": {"security.protocol": "SSL"},
    "ssl.key.pem": {},
}
WRONG_VALUES = ("Hunter2-XYZ", "hunter", "hunter2 and=more", "TLSv1.2,hunter2", "-0073219", " HUNTER ")


@pytest.mark.parametrize("name", WRONG_KEYS)
@pytest.mark.parametrize("value", WRONG_VALUES)
def test_a_wrong_key_is_named_and_its_value_is_not_shown(
    name: str, value: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In what case and shape a reader of the option may have it; neither in an error nor in a warning."""
    (tmp_path / "wrong").write_text(value)
    options = LEAST | {f"kafka.{each}": text for each, text in (NAMED | WRONG_KEYS[name]).items()}
    options[f"kafka.{name}"] = f"${{dir:{tmp_path}:wrong}}"
    try:
        said = "\n".join(parse(options).warnings)
    except OptionError as error:
        said = str(error)
        assert "option kafka." in said or "options kafka." in said
    for part in ("hunter", "73219"):
        assert part not in (said + caplog.text).lower()


def test_a_changed_file_is_not_quoted_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An executor looks values up again, and tells of those that are not fit any more."""
    (tmp_path / "bytes").write_text("1000000")
    (tmp_path / "password").write_text(SECRET)
    options = given(
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="PLAIN",
        sasl__username="alice",
        sasl__password=f"${{dir:{tmp_path}:password}}",
        fetch__max__bytes=f"${{dir:{tmp_path}:bytes}}",
    )
    before = with_values(options.kafka)
    (tmp_path / "bytes").write_text("hunter2-xyz")
    assert with_values(options.kafka) == before
    assert "changed files are not taken up: option kafka.fetch.max.bytes=" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_password_with_a_dollar_and_braces_is_not_quoted() -> None:
    """What stands between them looks like a reference."""
    for name, value in (
        ("sasl.password", "${hunter2:x}"),
        ("sasl.jaas.config", f'{SCRAM} username="a" password="${{hunter2:" x="a}}";'),
    ):
        message = refused(**{name: value})
        assert message == (
            f"option kafka.{name} refers to a provider that option kafka.config.providers=file,dir,Env does not name: name it "
            "there"
        )


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "an unknown provider": (
        {"client__id": "${vault:a:b}"},
        "refers to a provider vault that option kafka.config.providers=file,dir,Env does not name",
    ),
    "a key that is not there": ({"client__id": "${file:FILE:none}"}, "FILE has no none: add it there"),
    "a file that is not there": ({"client__id": "${file:FILE.no:x}"}, "FILE.no can't be read here (No such file"),
    "a folder's parent": ({"client__id": "${dir:/etc:..}"}, "names no file of a folder"),
    "a path in a folder": ({"client__id": "${dir:/:etc/passwd}"}, "names no file of a folder"),
    "a variable that is not set": ({"client__id": "${Env:NOBODY_HAS_IT}"}, "with spark.executorEnv.NOBODY_HAS_IT"),
    "another path": (
        {"client__id": "${file:FILE:user}", "config__providers__file__param__allowed__paths": "/nowhere,/none"},
        "is not within kafka.config.providers.file.param.allowed.paths=/nowhere,/none",
    ),
    "another variable": (
        {"client__id": "${Env:PATH}", "config__providers__env__param__allowlist__pattern": "KAFKA_.*"},
        "PATH is not among kafka.config.providers.Env.param.allowlist.pattern=KAFKA_.*",
    ),
    "a Java class": (
        {"config__providers__file__class": "com.example.VaultConfigProvider"},
        "kafka.config.providers.file.class=com.example.VaultConfigProvider is not supported: it is a Java class",
    ),
    "no class": ({"config__providers": "file,dir,Env,more"}, "kafka.config.providers.more.class is missing"),
    "a parameter that it has not": (
        {"config__providers__file__param__secrets": "x"},
        "kafka.config.providers.file.param.secrets is unknown",
    ),
    "a provider that is not named": (
        {"config__providers": "file,dir"},
        "is of no provider that kafka.config.providers",
    ),
}


@pytest.mark.parametrize(("kafka", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_looked_up(kafka: dict[str, Any], said: str, properties: Path) -> None:
    """One error names the option, the place and what to do, and no value."""
    message = refused(**{name: value.replace("FILE", str(properties)) for name, value in kafka.items()})
    assert said.replace("FILE", str(properties)) in message
    assert SECRET not in message
