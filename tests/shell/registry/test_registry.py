"""Schemas from a real registry over HTTP: found, awaited, refused, and never a secret in an error."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.values.registry_settings import RegistrySettings, read_settings
from sparkcohort.runtime.shell.values.schema_registry import (
    LOAD_S,
    NotYetKnownError,
    RegisteredText,
    RegistryError,
    RegistryUnavailableError,
    SchemaRegistry,
    UnknownSchemaError,
)
from sparkcohort.runtime.shell.values.writer_schemas import (
    ASK_AGAIN_S,
    MOST_THREADS,
    WriterSchemas,
    shared_writer_schemas,
)
from sparkcohort.runtime.values.avro_schema import parse_schema
from tests.kit.certificates import Authority
from tests.kit.registry import Registry, serving
from tests.kit.waiting import wait_until

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
MORE = {**ORDER, "fields": [*ORDER["fields"], {"name": "by", "type": "string", "default": ""}]}
PASSWORD = "pa55:w/rd"


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry that takes everybody."""
    with serving() as running:
        yield running


def settings(url: str, **more: str) -> RegistrySettings:
    """The settings as a user gives them; an underscore is a dot."""
    options = {f"schema.registry.{name.replace('_', '.')}": value for name, value in more.items()}
    found = read_settings({"schema.registry.timeout.ms": "2000", **options, "schema.registry.url": url})
    assert found is not None
    return found


def client(url: str, **more: str) -> SchemaRegistry:
    """A client of the registry there."""
    return SchemaRegistry(settings(url, **more))


def test_schemas_by_id_and_by_subject(registry: Registry) -> None:
    """The latest version, an older one, the id that stands in front of a record."""
    first, second = registry.register("orders-value", ORDER), registry.register("orders-value", MORE)
    asked = client(registry.url)
    latest = asked.reader_schema("orders-value")
    assert (latest.version, latest.schema_id) == (2, second)
    assert len(parse_schema(latest.schema.text).fields) == 2
    assert asked.reader_schema("orders-value", "1").schema_id == first
    assert asked.by_id(first) == RegisteredText("AVRO", asked.reader_schema("orders-value", "1").schema.text)
    registry.register("orders-value", {**MORE, "doc": "again"})
    assert asked.reader_schema("orders-value").version == 3


def test_what_is_registered_as_another_format_says_so(registry: Registry) -> None:
    """Whoever decodes Avro must not take it."""
    number = registry.register("orders-value", 'syntax = "proto3";', "PROTOBUF")
    assert client(registry.url).by_id(number).kind == "PROTOBUF"


def test_references_come_in_the_order_in_which_they_are_needed(registry: Registry) -> None:
    """A schema that uses one that uses another, as one text after the other."""
    country = {"type": "enum", "name": "geo.Country", "symbols": ["AT", "CZ"]}
    customer = {"type": "record", "name": "Customer", "fields": [{"name": "home", "type": "geo.Country"}]}
    order = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "by", "type": "Customer"}, {"name": "to", "type": "geo.Country"}],
    }
    registry.register("country", country)
    of_country = {"name": "geo.Country", "subject": "country", "version": 1}
    registry.register("customer", customer, references=[of_country])
    of_customer = {"name": "Customer", "subject": "customer", "version": 1}
    number = registry.register("orders-value", order, references=[of_customer, of_country])
    found = client(registry.url).by_id(number)
    assert len(found.references) == 2
    schema = parse_schema(found.text, found.references)
    assert schema.fields[0].schema.fields[0].schema is schema.fields[1].schema


def test_references_without_end_are_refused(registry: Registry) -> None:
    """A registry would not take them; one that has them all the same holds nobody up."""
    itself = {"name": "A", "subject": "a", "version": 1}
    number = registry.register("a", ORDER, references=[itself])
    with pytest.raises(RegistryError, match="references have no end"):
        client(registry.url).by_id(number)


@pytest.mark.parametrize(
    ("subject", "version", "message"),
    [("nobody", "latest", "Subject not found"), ("orders-value", "7", "Version not found")],
)
def test_what_there_is_not_is_told_by_name(registry: Registry, subject: str, version: str, message: str) -> None:
    """At once, without trying again."""
    registry.register("orders-value", ORDER)
    with pytest.raises(UnknownSchemaError, match=f"has no subject '{subject}', version {version}: {message}"):
        client(registry.url).reader_schema(subject, version)
    assert len(registry.requests) == 1


def test_a_version_is_latest_or_a_number(registry: Registry) -> None:
    """Nothing else is sent."""
    for version in ("0", "newest", "-1", "1.5", "9" * 5_000, "\u0663"):
        with pytest.raises(OptionError, match="'latest' or a number from 1"):
            client(registry.url).reader_schema("orders-value", version)
    assert registry.requests == []


def test_basic_login() -> None:
    """A password may have colons; a wrong one is told at once, and not what it is."""
    with serving(user_info=f"me:{PASSWORD}") as registry:
        number = registry.register("s", ORDER)
        assert client(registry.url, basic_auth_user_info=f"me:{PASSWORD}").by_id(number).kind == "AVRO"
        with pytest.raises(RegistryError, match=r"refused the login for schema 1; see schema.registry.basic") as raised:
            client(registry.url, basic_auth_user_info=f"you:{PASSWORD}").by_id(number)
        assert PASSWORD not in str(raised.value)
        with pytest.raises(RegistryError, match="refused the login"):
            client(registry.url).by_id(number)


def test_a_login_in_the_address_is_used_and_hidden() -> None:
    """As Confluent's client has it."""
    with serving(user_info="me:s3cret") as registry:
        number = registry.register("s", ORDER)
        within = registry.url.replace("http://", "http://me:s3cret@")
        assert client(within).by_id(number).kind == "AVRO"
        with pytest.raises(UnknownSchemaError) as raised:
            client(within).by_id(99)
        assert "s3cret" not in str(raised.value)
        assert "s3cret" not in repr(settings(within))


def test_bearer_login() -> None:
    """A token, with or without Confluent Cloud's cluster and pool."""
    with serving(token="t0ken") as registry:
        number = registry.register("s", ORDER)
        assert client(registry.url, bearer_auth_token="t0ken").by_id(number).kind == "AVRO"
        full = {"bearer_auth_logical_cluster": "lsrc-1", "bearer_auth_identity_pool_id": "pool-1"}
        assert client(registry.url, bearer_auth_token="t0ken", **full).by_id(number).kind == "AVRO"
        with pytest.raises(RegistryError) as raised:
            client(registry.url, bearer_auth_token="0ther").by_id(number)
        assert "0ther" not in str(raised.value)


def test_tls_on_both_sides(tmp_path: Path) -> None:
    """An authority of one's own, and a client's certificate with an encrypted key; no trust is told by its option."""
    authority = Authority(tmp_path)
    server, own = tmp_path / "server.pem", authority.identity("client")
    server.write_text(authority.identity("127.0.0.1").pem())
    (tmp_path / "cert.pem").write_text(own.chain)
    (tmp_path / "key.pem").write_text(own.key(PASSWORD))
    with serving(tls=server, client_authority=authority.path) as registry:
        number = registry.register("s", ORDER)
        login = {
            "ssl_ca_location": str(authority.path),
            "ssl_certificate_location": str(tmp_path / "cert.pem"),
            "ssl_key_location": str(tmp_path / "key.pem"),
            "ssl_key_password": PASSWORD,
        }
        assert client(registry.url, **login).by_id(number).kind == "AVRO"
        stranger = Authority(tmp_path)
        with pytest.raises(RegistryError, match=r"is not trusted; see schema.registry.ssl.ca.location"):
            client(registry.url, ssl_ca_location=str(stranger.path)).by_id(number)
    with pytest.raises(OptionError, match=r"schema.registry.\*"):
        client("https://127.0.0.1:1", ssl_ca_location=str(tmp_path / "none.pem"))


def test_a_registry_that_is_away_is_waited_for() -> None:
    """For as long as the option says, then it is told by name; back in time, nobody notices."""
    with serving() as registry:
        place = registry.url
        number = registry.register("s", ORDER)
        assert client(place).by_id(number).kind == "AVRO"
    begin = time.monotonic()
    with pytest.raises(RegistryUnavailableError, match=rf"{place} did not answer for schema 1 within 0.3 s"):
        client(place, timeout_ms="300").by_id(1)
    assert time.monotonic() - begin < 20
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(client(place, timeout_ms="60000").by_id, 1)
        with serving(port=int(place.rpartition(":")[2]), schemas={"s": ORDER}):
            assert found.result(60).kind == "AVRO"


@pytest.mark.parametrize("fault", ["500", "429", "nonsense", "slow"])
def test_a_registry_that_fails_is_asked_again(registry: Registry, fault: str) -> None:
    """Errors of its own, too many callers, no JSON, no answer: each is over some time."""
    number = registry.register("s", ORDER)
    if fault == "slow":
        registry.held.clear()
    elif fault == "nonsense":
        registry.nonsense = True
    else:
        registry.status = int(fault)
    with pytest.raises(RegistryUnavailableError, match=r"did not answer for schema 1 within 0.2 s"):
        client(registry.url, timeout_ms="200").by_id(number)
    with ThreadPoolExecutor(1) as pool:
        before = len(registry.requests)
        found = pool.submit(client(registry.url, timeout_ms="60000").by_id, number)
        wait_until(lambda: len(registry.requests) > before, 30, "a request")
        registry.status, registry.nonsense = 0, False
        registry.held.set()
        assert found.result(60).kind == "AVRO"


def test_a_writers_schema_is_fetched_once(registry: Registry) -> None:
    """Whoever asks, and when; and it is known while the registry is away."""
    number = registry.register("s", ORDER)
    schemas = WriterSchemas(SchemaRegistry(settings(registry.url)))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: schemas.get(number), range(64)))
    assert {type(each) for each in found} == {RegisteredText}
    assert len(registry.requests) == 1
    registry.status = 500
    assert schemas.get(number) == found[0]


def test_a_registry_that_is_away_holds_nobody_up(registry: Registry) -> None:
    """Threads that need its schemas go on after a moment, each with the error; the answer is kept when it comes."""
    number = registry.register("s", ORDER)
    unknown = range(101, 109)
    registry.held.clear()
    others = set(threading.enumerate())  # those of tests before this one may still be ending
    schemas = WriterSchemas(SchemaRegistry(settings(registry.url, timeout_ms="60000")))

    def attempt(schema_id: int) -> str:
        with pytest.raises(RegistryUnavailableError) as raised:
            schemas.get(schema_id)
        return str(raised.value)

    with ThreadPoolExecutor(16) as pool:
        errors = set(pool.map(attempt, [number] * 8 + list(unknown)))
    assert len(errors) == 9
    assert all(f"{registry.url} has not answered for schema " in error for error in errors)
    threads = set(threading.enumerate()) - others
    assert 0 < sum(each.name.startswith("cohort-schemas") for each in threads) <= MOST_THREADS
    registry.held.set()

    def answer(schema_id: int) -> RegisteredText | str | None:
        try:
            return schemas.get(schema_id)
        except NotYetKnownError as error:
            return str(error)
        except RegistryUnavailableError:
            return None

    assert isinstance(wait_until(lambda: answer(number), 30, "the answer"), RegisteredText)
    for schema_id in unknown:  # else their threads try to reach this registry until their time is over
        wait_until(lambda: answer(schema_id), 30, "an answer")  # noqa: B023  called at once


def test_without_a_thread_no_record_is_bad(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has none for now: that is an error of the registry's kind, and the schema is asked for again."""
    number = registry.register("s", ORDER)
    schemas = WriterSchemas(SchemaRegistry(settings(registry.url)))

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RegistryError, match="can't be asked for: can't start new thread"):
            schemas.get(number)
    assert isinstance(schemas.get(number), RegisteredText)


def test_what_a_registry_refuses_is_told_and_asked_for_again(registry: Registry) -> None:
    """In its words, at once for a moment, and then it is asked again."""
    number, now = registry.register("s", ORDER), [0.0]
    schemas = WriterSchemas(SchemaRegistry(settings(registry.url)), lambda: now[0])
    registry.status = 403
    for _ in range(2):
        with pytest.raises(RegistryError, match=f"refused the login for schema {number}"):
            schemas.get(number)
    assert len(registry.requests) == 1
    registry.status, now[0] = 0, ASK_AGAIN_S
    assert isinstance(schemas.get(number), RegisteredText)


def test_an_id_that_is_not_known_yet_is_waited_for(registry: Registry) -> None:
    """A follower behind its leader has it a second later: asked again every second, no reason before the time-out."""
    now = [0.0]
    schemas = WriterSchemas(SchemaRegistry(settings(registry.url, timeout_ms="3000")), lambda: now[0])
    for second in range(3):
        now[0] = second * ASK_AGAIN_S
        for _ in range(10):
            with pytest.raises(NotYetKnownError, match="has no schema 1: Schema not found"):
                schemas.get(1)
        assert len(registry.requests) == second + 1
    registry.register("s", ORDER)
    now[0] += ASK_AGAIN_S
    assert isinstance(schemas.get(1), RegisteredText)


def test_an_id_that_stays_unknown_is_a_reason_and_asked_for_again(registry: Registry) -> None:
    """After the time-out; a second later it may be registered.  Where nobody has asked for long it is waited for anew."""
    now = [0.0]
    schemas = WriterSchemas(SchemaRegistry(settings(registry.url, timeout_ms="3000")), lambda: now[0])

    def waits() -> bool:
        try:
            assert "has no schema 1: Schema not found" in str(schemas.get(1))
        except NotYetKnownError:
            return True
        return False

    found = []
    for now[0] in (0.0, 1.0, 2.9, 3.95, 4.0, 9.0):
        found.append(waits())
    assert found == [True, True, True, False, False, True]
    registry.register("s", ORDER)
    now[0] += ASK_AGAIN_S
    assert isinstance(schemas.get(1), RegisteredText)


@pytest.mark.parametrize("setting", [{"bearer_auth_token": "t\u20ac"}, {"proxy": "nonsense"}])
def test_what_can_never_be_sent_is_told_at_once(setting: dict[str, str]) -> None:
    """Nothing is waited for."""
    with pytest.raises(OptionError, match=r"schema.registry.\*"):
        client("http://r", **setting)


@pytest.mark.parametrize("body", [b"9" * 5_000, b"[" * 100_000, b'{"schema":"\xff"}', b"<html>", b""])
def test_an_answer_that_is_no_json_is_waited_for(body: bytes) -> None:
    """Whatever Python says of it."""
    with (
        speaking(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body), b"") as url,
        pytest.raises(RegistryUnavailableError, match=r"did not answer for .*: the answer is no JSON"),
    ):
        client(url, timeout_ms="300").reader_schema("s")


def test_half_a_character_in_an_answer(registry: Registry) -> None:
    """A reference that no address can have is one that the registry doesn't know; a type of null is none."""
    number = registry.register("s", ORDER, references=[{"name": "A", "subject": "\ud800", "version": 1}])
    for ask in (lambda: client(registry.url).by_id(number), lambda: client(registry.url).reader_schema("s")):
        with pytest.raises(UnknownSchemaError, match=r"has no subject '.ud800', version 1: Subject not found"):
            ask()
    registry.says = {"schema": "{}", "schemaType": None}
    assert client(registry.url).by_id(number) == RegisteredText("AVRO", "{}")


@pytest.mark.parametrize("answer", [{}, {"schema": 5}, {"schema": None}, {"schema": {"type": "long"}}, [], 7, None])
def test_an_answer_that_nobody_foresaw_is_an_error_of_the_registry(registry: Registry, answer: object) -> None:
    """Neither a schema nor Python's words."""
    registry.says = answer
    with pytest.raises(RegistryError, match="The schema registry http"):
        SchemaRegistry(settings(registry.url, timeout_ms="200")).by_id(1)


@contextmanager
def speaking(head: bytes, drip: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """The address of a server that answers every request with ``head``, and then with ``drip`` again and again."""
    ended = threading.Event()

    def answer(connection: socket.socket) -> None:
        with closing(connection), suppress(OSError):
            connection.recv(65536)
            connection.sendall(head)
            while drip and not ended.wait(pause_s):
                connection.sendall(drip)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()


@pytest.mark.parametrize(
    "head",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b""],
    ids=["body", "header", "status"],
)
def test_an_answer_that_drips_has_a_limit_of_whole_time(head: bytes) -> None:
    """A byte now and then is no silence, wherever in the answer; it is no answer either."""
    with (
        speaking(head, b"H", 0.05) as url,
        pytest.raises(RegistryUnavailableError, match="did not answer for schema 1"),
    ):
        client(url, timeout_ms="400").by_id(1)


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 503 Away\r\n\r\n"])
def test_an_answer_has_a_limit_of_size(head: bytes) -> None:
    """Of an error as well; it is not asked for again and again."""
    with speaking(head, b"[" * 65536) as url, pytest.raises(RegistryError, match="with more than 16 MiB for schema 1"):
        client(url, timeout_ms="60000").by_id(1)


def moved(place: str) -> bytes:
    """An answer that sends the caller elsewhere."""
    return f"HTTP/1.1 307 Elsewhere\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode()


def test_redirects_are_followed(registry: Registry) -> None:
    """To another host, where no login of ours goes; not to another kind of address, and not for ever."""
    number = registry.register("s", ORDER)
    with speaking(moved(f"{registry.url}/schemas/ids/{number}"), b"") as url:
        assert client(url, basic_auth_user_info="me:secret").by_id(number).kind == "AVRO"
        assert registry.headers[-1].get("Authorization") is None
    for place in ("/schemas/ids/1", "ftp://127.0.0.1/schemas", "file:///etc/passwd"):
        with speaking(moved(place), b"") as url, pytest.raises(RegistryError, match="The schema registry http"):
            client(url, timeout_ms="300").by_id(number)


def test_load_names_a_registry_that_refuses_connections_soon() -> None:
    """Somebody waits for ``load()``; an executor that needs a schema waits for as long as the option says."""
    with pytest.raises(
        RegistryUnavailableError, match=rf"did not answer for subject 's', version latest within {LOAD_S:g} s: "
    ):
        client("http://127.0.0.1:1", timeout_ms="3600000").reader_schema("s")


def test_a_process_has_one_of_each_registry(registry: Registry) -> None:
    """All its tasks and queries; another login is another one."""
    assert shared_writer_schemas(settings(registry.url)) is shared_writer_schemas(settings(registry.url))
    other = settings(registry.url, basic_auth_user_info="me:x")
    assert shared_writer_schemas(settings(registry.url)) is not shared_writer_schemas(other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "registry:8081"}, "one or more addresses like https://"),
        ({"basic.auth.user.info": "a:b"}, "one or more addresses"),
        ({"url": "http://r", "basic.auth.user.info": "me"}, "user:password"),
        ({"url": "http://r", "basic.auth.user.info": "a:b", "bearer.auth.token": "c"}, "only one of them"),
        ({"url": "http://r", "ssl.truststore": "x"}, "schema.registry.ssl.truststore: there is no such option"),
        ({"url": "http://[::1"}, "one or more addresses"),
        ({"url": "http://r:99999"}, "one or more addresses"),
        ({"url": "http://r:80a"}, "one or more addresses"),
        ({"url": "http://\u2100"}, "one or more addresses"),
        ({"url": "http://r", "timeout.ms": "soon"}, "no number of milliseconds"),
        ({"url": "http://r", "timeout.ms": "9" * 5_000}, "no number of milliseconds"),
        ({"url": "http://r", "timeout.ms": "\u0663"}, "no number of milliseconds"),
        ({"url": "http://a:b@r", "basic.auth.user.info": "a:b"}, "schema.registry.url has a login too"),
        ({"url": "http://r", "ssl.key.location": "key.pem"}, "needs schema.registry.ssl.certificate.location"),
    ],
)
def test_wrong_options_are_told(options: dict[str, str], message: str) -> None:
    """Before anything is asked."""
    with pytest.raises(OptionError, match=message):
        read_settings({f"schema.registry.{name}": value for name, value in options.items()})
