"""The one table of Kafka's settings: ``kafka.*`` options and settings of librdkafka.

One row per name; beside it only ``client_defaults`` has names.  A name without a row passes: librdkafka judges it (``kafka_check``).
Sources: Kafka's ``ConsumerConfig``, ``SaslConfigs``, ``SslConfigs``; librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple


class Fate(Enum):
    """The treatment of the option ``kafka.NAME``."""

    PASSED = "goes to librdkafka by this name"
    RENAMED = "goes to librdkafka by the name that it becomes"
    TRANSLATED = "becomes other settings, together with its like: stores and logins"
    REFUSED = "is an error that says why, and what to do instead"
    NO_EFFECT = "is left out, with one warning that says why"
    DROPPED = "is left out: librdkafka does the same without it"
    ALIAS = "is another name of our own option NAME"
    OPTION = "is an option of our own, with this prefix"


class OurClient(Enum):
    """How our own fetch client treats a setting."""

    HONOURED = "does as it says; where the row has ``our_values``, with these values only"
    INDIFFERENT = "it is about groups, metadata, logs or how librdkafka works inside: nothing that a fetch depends on"
    OTHER_LOGINS = "it belongs to a SASL mechanism that our client doesn't have, and matters with that mechanism only"
    PRODUCERS = "consumers do nothing with it, of which librdkafka warns when the options are read"
    UNABLE = "changes what a connection does, in a way that ours can't: confluent-kafka's consumer reads instead"
    UNREACHED = "no client gets it by this name: see its fate"


class KafkaSetting(NamedTuple):
    """One name of Kafka's or librdkafka's; a column without a value does not apply."""

    name: str
    fate: Fate = Fate.PASSED
    reason: str = ""  # refused, no effect: the reason, and what to do instead
    becomes: tuple[str, ...] = ()  # renamed, translated: librdkafka's names
    secret: bool = False  # never shown
    our_client: OurClient = OurClient.UNREACHED
    our_values: tuple[str, ...] = ()  # the values, in lower case, that our client can honour
    harmless: tuple[str, ...] = ()  # values, in lower case, that ask for what is done anyway
    default: str | None = None  # librdkafka's, where our client uses it
    alias_of: str = ""  # librdkafka's other name of the same, by which our defaults go
    consumers_only: bool = False  # an administrator's client would warn of it


REFUSED, NO_EFFECT, DROPPED = Fate.REFUSED, Fate.NO_EFFECT, Fate.DROPPED
RENAMED, TRANSLATED, ALIAS, OPTION = Fate.RENAMED, Fate.TRANSLATED, Fate.ALIAS, Fate.OPTION
HONOURED, INDIFFERENT = OurClient.HONOURED, OurClient.INDIFFERENT
OTHER_LOGINS, PRODUCERS, UNABLE = OurClient.OTHER_LOGINS, OurClient.PRODUCERS, OurClient.UNABLE

OTHER_LOGINS_BEGIN: Final = ("sasl.kerberos.", "sasl.oauthbearer.")
"""The beginnings of the names of such settings, also of those without a row."""

_STARTS: Final = "the source decides where to start; use startingOffsets"
_BYTES: Final = "keys and values arrive as bytes; decode them with DataFrame operations"
_COMMITS: Final = "offsets are committed after Spark's commit log; it cannot be switched on or off"
_SET_BY_SOURCE: Final = "the source sets it itself; leave it out"
_CLASSIC: Final = "the driver is a member by the classic protocol; leave it out"
_MOCK: Final = "every client would have a cluster of its own; give kafka.bootstrap.servers of one"
_NO_PROVIDERS: Final = (
    "values are not looked up; read the secret where the query is made: .option('kafka.sasl.jaas.config', f'… "
    'password="{Path("/etc/kafka/secret/password").read_text().strip()}";\')'
)
_PACE: Final = "a broker that lets no client in is tried again after a second"
_NO_JVM: Final = "there is no JVM; see metrics.port"
_CREDENTIALS: Final = "it is a Java class; put the credentials into kafka.sasl.jaas.config"
_JAVAS_SECURITY: Final = "it configures Java's security machinery, librdkafka has its own"
_TLS: Final = "TLS 1.2 and 1.3 are spoken, the newest that a broker speaks too; limit it there, and leave it out"
_CHECKED: Final = "tokens are checked by the brokers, not by clients"
_AS_THEY_ARE: Final = "librdkafka sends id and secret as they are; give them encoded, and leave it out"

_OF_PRODUCERS: Final = (
    "acks", "batch.num.messages", "batch.size", "compression.codec", "compression.level", "compression.type",
    "delivery.report.only.error", "delivery.timeout.ms", "enable.gapless.guarantee", "enable.idempotence",
    "linger.ms", "message.send.max.retries", "message.timeout.ms", "partitioner",
    "queue.buffering.backpressure.threshold", "queue.buffering.max.kbytes", "queue.buffering.max.messages",
    "queue.buffering.max.ms", "request.required.acks", "retries", "sticky.partitioning.linger.ms",
    "transaction.timeout.ms", "transactional.id",
)  # fmt: skip
_INDIFFERENT: Final = (
    "api.version.fallback.ms", "api.version.request.timeout.ms", "broker.address.ttl", "broker.version.fallback",
    "builtin.features", "client.software.name", "client.software.version", "consume.callback.max.messages",
    "coordinator.query.interval.ms", "debug", "enable.metrics.push", "enable.random.seed",
    "enable.sasl.oauthbearer.unsecure.jwt", "enable.sparse.connections", "enable_sasl_queue", "enabled_events",
    "https.ca.location", "https.ca.pem", "internal.termination.signal", "log.thread.name", "log_level",
    "max.in.flight", "max.in.flight.requests.per.connection", "message.copy.max.bytes", "metadata.recovery.strategy",
    "metadata.request.timeout.ms", "offset.store.path", "offset.store.sync.interval.ms", "produce.offset.report",
    "queuing.strategy", "reconnect.backoff.jitter.ms", "socket.blocking.max.ms", "socket.max.fails",
    "socket.nagle.disable", "ssl.ca.certificate.stores", "topic.metadata.refresh.fast.cnt",
    "topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.sparse",
)  # fmt: skip
_OF_OTHER_LOGINS: Final = (
    "sasl.kerberos.keytab", "sasl.kerberos.kinit.cmd", "sasl.kerberos.principal", "sasl.kerberos.service.name",
    "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.iss", "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.jwt.template.file", "sasl.oauthbearer.client.id", "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.grant.type", "sasl.oauthbearer.metadata.authentication.type", "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope", "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.token.endpoint.url",
)  # fmt: skip
_IDLE: Final = {
    _JAVAS_SECURITY: (
        "sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms",
        "ssl.keymanager.algorithm", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
    ),
    _CHECKED: (
        "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
    ),
    _NO_JVM: (
        "auto.include.jmx.reporter", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
        "metrics.sample.window.ms",
    ),
}  # fmt: skip
_ROWS: Final = (
    KafkaSetting("allow.auto.create.topics", our_client=INDIFFERENT),
    KafkaSetting("api.version.request", our_client=HONOURED, our_values=("true", "t", "1")),
    KafkaSetting("auto.commit.enable", REFUSED, reason=_COMMITS),
    KafkaSetting("auto.commit.interval.ms", NO_EFFECT, reason=_COMMITS, our_client=INDIFFERENT),
    KafkaSetting("auto.offset.reset", REFUSED, reason=_STARTS, our_client=INDIFFERENT),
    KafkaSetting("bootstrap.servers", OPTION, our_client=HONOURED),
    KafkaSetting("broker.address.family", our_client=HONOURED, default="any"),
    KafkaSetting("check.crcs", our_client=INDIFFERENT, consumers_only=True),
    KafkaSetting("client.dns.lookup", our_client=HONOURED, our_values=("use_all_dns_ips",)),
    KafkaSetting("client.id", our_client=HONOURED, default="rdkafka"),
    KafkaSetting("client.rack", ALIAS, our_client=HONOURED, default=""),
    KafkaSetting("config.providers", REFUSED, reason=_NO_PROVIDERS),
    KafkaSetting("connections.max.idle.ms", our_client=INDIFFERENT, harmless=("-1",)),
    KafkaSetting("default.api.timeout.ms", OPTION),
    KafkaSetting("default_topic_conf", REFUSED, reason=_SET_BY_SOURCE),
    KafkaSetting("enable.auto.commit", REFUSED, reason=_COMMITS, our_client=INDIFFERENT),
    KafkaSetting("enable.auto.offset.store", REFUSED, reason=_COMMITS, our_client=INDIFFERENT),
    KafkaSetting("enable.partition.eof", REFUSED, reason=_SET_BY_SOURCE, our_client=INDIFFERENT),
    KafkaSetting("enable.ssl.certificate.verification", our_client=HONOURED, default="true"),
    KafkaSetting("exclude.internal.topics", NO_EFFECT, reason="internal topics are read only when named"),
    KafkaSetting("fetch.error.backoff.ms", our_client=INDIFFERENT, consumers_only=True),
    KafkaSetting("fetch.max.bytes", our_client=HONOURED, consumers_only=True),
    KafkaSetting("fetch.max.wait.ms", RENAMED, becomes=("fetch.wait.max.ms",)),
    KafkaSetting(
        "fetch.message.max.bytes", our_client=HONOURED, alias_of="max.partition.fetch.bytes", consumers_only=True
    ),
    KafkaSetting("fetch.min.bytes", our_client=HONOURED, default="1", consumers_only=True),
    KafkaSetting("fetch.queue.backoff.ms", our_client=INDIFFERENT, consumers_only=True),
    KafkaSetting("fetch.wait.max.ms", our_client=HONOURED, consumers_only=True),
    KafkaSetting("group.id", ALIAS, our_client=INDIFFERENT),
    KafkaSetting("group.instance.id", ALIAS, our_client=INDIFFERENT),
    KafkaSetting("group.protocol", REFUSED, reason=_CLASSIC, our_client=INDIFFERENT, harmless=("classic",)),
    KafkaSetting("group.protocol.type", REFUSED, reason=_CLASSIC, our_client=INDIFFERENT),
    KafkaSetting(
        "group.remote.assignor",
        REFUSED,
        reason="executors are assigned here; use partition.assignment.strategy",
        our_client=INDIFFERENT,
    ),
    KafkaSetting("heartbeat.interval.ms", ALIAS, our_client=INDIFFERENT),
    KafkaSetting("interceptor.classes", REFUSED, reason="it names Java classes; use DataFrame operations"),
    KafkaSetting("internal.leave.group.on.close", NO_EFFECT, reason="the driver's static member never leaves"),
    KafkaSetting(
        "internal.throw.on.fetch.stable.offset.unsupported", NO_EFFECT, reason="it is about commits of Kafka Streams"
    ),
    KafkaSetting("isolation.level", our_client=HONOURED, consumers_only=True),
    KafkaSetting("key.deserializer", REFUSED, reason=_BYTES),
    KafkaSetting("key.serializer", REFUSED, reason=_BYTES),
    KafkaSetting("log.connection.close", our_client=INDIFFERENT),
    KafkaSetting("log.queue", REFUSED, reason=_SET_BY_SOURCE, our_client=INDIFFERENT),
    KafkaSetting("log_cb", REFUSED, reason=_SET_BY_SOURCE),
    KafkaSetting("max.partition.fetch.bytes", our_client=HONOURED, consumers_only=True),
    KafkaSetting(
        "max.poll.interval.ms",
        NO_EFFECT,
        reason="the group's own limit is rebalance.timeout.ms",
        our_client=INDIFFERENT,
    ),
    KafkaSetting("max.poll.records", NO_EFFECT, reason="records are read in whole fetches"),
    KafkaSetting("message.max.bytes", our_client=INDIFFERENT),
    KafkaSetting("metadata.broker.list", our_client=HONOURED),
    KafkaSetting("metadata.max.age.ms", ALIAS, our_client=INDIFFERENT),
    KafkaSetting("metadata.recovery.rebootstrap.trigger.ms", our_client=INDIFFERENT),
    KafkaSetting("offset.store.method", REFUSED, reason=_COMMITS, our_client=INDIFFERENT),
    KafkaSetting("on_commit", REFUSED, reason=_SET_BY_SOURCE),
    KafkaSetting("opaque", REFUSED, reason=_SET_BY_SOURCE),
    KafkaSetting("partition.assignment.strategy", ALIAS, our_client=INDIFFERENT),
    KafkaSetting("plugin.library.paths", REFUSED, reason="plug-ins are not loaded; leave it out"),
    KafkaSetting("queued.max.messages.kbytes", our_client=INDIFFERENT, consumers_only=True),
    KafkaSetting("queued.min.messages", our_client=INDIFFERENT, consumers_only=True),
    KafkaSetting("receive.buffer.bytes", RENAMED, becomes=("socket.receive.buffer.bytes",), harmless=("-1",)),
    KafkaSetting("receive.message.max.bytes", our_client=HONOURED, default="100000000"),
    KafkaSetting("reconnect.backoff.max.ms", NO_EFFECT, reason=_PACE, our_client=INDIFFERENT),
    KafkaSetting("reconnect.backoff.ms", NO_EFFECT, reason=_PACE, our_client=INDIFFERENT),
    KafkaSetting("request.timeout.ms", RENAMED, becomes=("socket.timeout.ms",)),
    KafkaSetting("retry.backoff.max.ms", our_client=INDIFFERENT),
    KafkaSetting("retry.backoff.ms", our_client=INDIFFERENT),
    KafkaSetting("sasl.client.callback.handler.class", TRANSLATED, becomes=("sasl.oauthbearer.provider",)),
    KafkaSetting(
        "sasl.jaas.config",
        TRANSLATED,
        becomes=(
            "sasl.username",
            "sasl.password",
            "sasl.oauthbearer.client.id",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.extensions",
            "sasl.oauthbearer.method",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.provider",
            "sasl.kerberos.keytab",
            "sasl.kerberos.principal",
            "sasl.kerberos.service.name",
        ),
        secret=True,
    ),
    KafkaSetting("sasl.kerberos.min.time.before.relogin", our_client=OTHER_LOGINS),
    KafkaSetting("sasl.login.callback.handler.class", TRANSLATED, becomes=("sasl.oauthbearer.method",)),
    KafkaSetting("sasl.login.class", REFUSED, reason=_CREDENTIALS),
    KafkaSetting("sasl.mechanism", RENAMED, becomes=("sasl.mechanisms",), our_client=HONOURED),
    KafkaSetting("sasl.mechanisms", our_client=HONOURED, default="GSSAPI"),
    KafkaSetting("sasl.oauthbearer.assertion.claim.exp.seconds", our_client=OTHER_LOGINS),
    KafkaSetting("sasl.oauthbearer.assertion.claim.nbf.seconds", our_client=OTHER_LOGINS),
    KafkaSetting("sasl.oauthbearer.assertion.private.key.file", secret=True, our_client=OTHER_LOGINS),
    KafkaSetting("sasl.oauthbearer.assertion.private.key.passphrase", secret=True, our_client=OTHER_LOGINS),
    KafkaSetting("sasl.oauthbearer.assertion.private.key.pem", secret=True, our_client=OTHER_LOGINS),
    KafkaSetting(
        "sasl.oauthbearer.assertion.template.file", RENAMED, becomes=("sasl.oauthbearer.assertion.jwt.template.file",)
    ),
    KafkaSetting("sasl.oauthbearer.client.credentials.client.id", RENAMED, becomes=("sasl.oauthbearer.client.id",)),
    KafkaSetting(
        "sasl.oauthbearer.client.credentials.client.secret",
        RENAMED,
        becomes=("sasl.oauthbearer.client.secret",),
        secret=True,
    ),
    KafkaSetting("sasl.oauthbearer.client.secret", secret=True, our_client=OTHER_LOGINS),
    KafkaSetting("sasl.oauthbearer.config", secret=True, our_client=OTHER_LOGINS),
    KafkaSetting("sasl.oauthbearer.header.urlencode", REFUSED, reason=_AS_THEY_ARE, harmless=("", "false")),
    KafkaSetting("sasl.oauthbearer.jwt.retriever", DROPPED),
    KafkaSetting(
        "sasl.oauthbearer.jwt.retriever.class",
        TRANSLATED,
        becomes=("sasl.oauthbearer.method", "sasl.oauthbearer.grant.type", "sasl.oauthbearer.provider"),
    ),
    KafkaSetting("sasl.oauthbearer.provider", OPTION, our_client=HONOURED),
    KafkaSetting("sasl.password", secret=True, our_client=HONOURED),
    KafkaSetting("sasl.username", our_client=HONOURED),
    KafkaSetting("security.protocol", our_client=HONOURED, default="plaintext"),
    KafkaSetting("security.providers", REFUSED, reason="they are Java classes; configure OpenSSL instead"),
    KafkaSetting("send.buffer.bytes", RENAMED, becomes=("socket.send.buffer.bytes",), harmless=("-1",)),
    KafkaSetting("session.timeout.ms", ALIAS, our_client=INDIFFERENT),
    KafkaSetting("share.acknowledgement.mode", NO_EFFECT, reason="there are no share groups here"),
    KafkaSetting(
        "socket.connection.setup.timeout.max.ms",
        NO_EFFECT,
        reason="there is one limit, kafka.socket.connection.setup.timeout.ms",
    ),
    KafkaSetting(
        "socket.connection.setup.timeout.ms",
        our_client=HONOURED,
        default="30000",
    ),
    KafkaSetting("socket.keepalive.enable", our_client=HONOURED, default="false"),
    KafkaSetting("socket.receive.buffer.bytes", our_client=HONOURED, default="0"),
    KafkaSetting("socket.send.buffer.bytes", our_client=HONOURED, default="0"),
    KafkaSetting("socket.timeout.ms", our_client=HONOURED, default="60000"),
    KafkaSetting("ssl.ca.location", our_client=HONOURED),
    KafkaSetting("ssl.ca.pem", our_client=HONOURED),
    KafkaSetting("ssl.certificate.location", our_client=HONOURED),
    KafkaSetting("ssl.certificate.pem", our_client=HONOURED),
    KafkaSetting("ssl.cipher.suites", our_client=HONOURED),
    KafkaSetting("ssl.crl.location", our_client=HONOURED),
    KafkaSetting("ssl.curves.list", our_client=UNABLE),
    KafkaSetting(
        "ssl.enabled.protocols", REFUSED, reason=_TLS, harmless=("tlsv1.2", "tlsv1.2,tlsv1.3", "tlsv1.3,tlsv1.2")
    ),
    KafkaSetting("ssl.endpoint.identification.algorithm", our_client=HONOURED, default="https"),
    KafkaSetting(
        "ssl.engine.factory.class",
        REFUSED,
        reason="it is a Java class; give PEM files by kafka.ssl.ca.location, kafka.ssl.certificate.location, kafka.ssl.key.location",
    ),
    KafkaSetting("ssl.engine.id", our_client=UNABLE),
    KafkaSetting("ssl.engine.location", our_client=UNABLE),
    KafkaSetting("ssl.key.location", our_client=HONOURED),
    KafkaSetting("ssl.key.password", secret=True, our_client=HONOURED),
    KafkaSetting("ssl.key.pem", secret=True, our_client=HONOURED),
    KafkaSetting("ssl.keystore.certificate.chain", RENAMED, becomes=("ssl.certificate.pem",)),
    KafkaSetting("ssl.keystore.key", RENAMED, becomes=("ssl.key.pem",), secret=True),
    KafkaSetting(
        "ssl.keystore.location",
        TRANSLATED,
        becomes=("ssl.keystore.location", "ssl.certificate.location", "ssl.key.location"),
        our_client=HONOURED,
    ),
    KafkaSetting(
        "ssl.keystore.password", TRANSLATED, becomes=("ssl.keystore.password",), secret=True, our_client=HONOURED
    ),
    KafkaSetting("ssl.keystore.type", TRANSLATED),
    KafkaSetting("ssl.protocol", REFUSED, reason=_TLS, harmless=("tls", "tlsv1.2", "tlsv1.3")),
    KafkaSetting("ssl.provider", REFUSED, reason="it names a Java provider; configure OpenSSL on the machine instead"),
    KafkaSetting("ssl.providers", our_client=UNABLE),
    KafkaSetting("ssl.sigalgs.list", our_client=UNABLE),
    KafkaSetting("ssl.truststore.certificates", RENAMED, becomes=("ssl.ca.pem",)),
    KafkaSetting(
        "ssl.truststore.location",
        TRANSLATED,
        becomes=("ssl.ca.location", "ssl.truststore.location"),
        our_client=HONOURED,
    ),
    KafkaSetting(
        "ssl.truststore.password", TRANSLATED, becomes=("ssl.truststore.password",), secret=True, our_client=HONOURED
    ),
    KafkaSetting("ssl.truststore.type", TRANSLATED),
    KafkaSetting(
        "statistics.interval.ms", NO_EFFECT, reason="see metrics.port", our_client=HONOURED, our_values=("0",)
    ),
    KafkaSetting("test.mock.broker.rtt", REFUSED, reason=_MOCK),
    KafkaSetting("test.mock.num.brokers", REFUSED, reason=_MOCK),
    KafkaSetting("topic.blacklist", our_client=INDIFFERENT),  # the driver sees no such topic, so nobody plans it
    KafkaSetting("topic.metadata.propagation.max.ms", our_client=INDIFFERENT),
    KafkaSetting("topic.metadata.refresh.interval.ms", our_client=HONOURED, default="300000"),
    KafkaSetting("value.deserializer", REFUSED, reason=_BYTES),
    KafkaSetting("value.serializer", REFUSED, reason=_BYTES),
)

_ALIKE: Final = {PRODUCERS: _OF_PRODUCERS, INDIFFERENT: _INDIFFERENT, OTHER_LOGINS: _OF_OTHER_LOGINS}

SETTINGS: Final = tuple(
    sorted(
        (
            *_ROWS,
            *(KafkaSetting(name, our_client=kind) for kind, alike in _ALIKE.items() for name in alike),
            *(KafkaSetting(name, NO_EFFECT, reason=reason) for reason, idle in _IDLE.items() for name in idle),
        ),
        key=lambda row: row.name,
    )
)
ROWS: Final = {row.name: row for row in SETTINGS}
UNKNOWN: Final = KafkaSetting("", our_client=UNABLE)
"""What is known of a name without a row."""
BEGINNINGS: Final = {
    "config.providers.": KafkaSetting("config.providers.", REFUSED, reason=_NO_PROVIDERS),
    "metrics.context.": KafkaSetting("metrics.context.", NO_EFFECT, reason=_NO_JVM),
    "metrics.jmx.": KafkaSetting("metrics.jmx.", NO_EFFECT, reason=_NO_JVM),
}
"""The rows of all names that begin so and have no row of their own."""


def names(fate: Fate) -> tuple[str, ...]:
    """The names with this fate, in order."""
    return tuple(row.name for row in SETTINGS if row.fate is fate)


def value_of(conf: Mapping[str, Any], name: str) -> Any:
    """The value in these settings of librdkafka, else librdkafka's default, which the row must have."""
    return conf.get(name, ROWS[name].default)
