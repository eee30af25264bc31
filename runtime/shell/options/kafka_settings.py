"""``kafka.*`` options in librdkafka's words: translated, accepted with a warning, or refused by name.

What Spark's source refuses is refused with Spark's reasons; what a Java consumer calls otherwise is renamed; what is
left is shown to librdkafka itself (a consumer without brokers is created and dropped, under a millisecond), so that
the library installed decides what it knows, not a list in this file.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options import security_settings

_STARTS = "the source decides where to start; use startingOffsets"
_BYTES = "keys and values arrive as bytes; decode them with DataFrame operations"
_COMMITS = "offsets are committed after Spark's commit log; it cannot be switched on or off"
_OURS = "the source sets it itself; leave it out"

REFUSED = {
    "auto.offset.reset": _STARTS,
    "key.deserializer": _BYTES,
    "value.deserializer": _BYTES,
    "key.serializer": _BYTES,
    "value.serializer": _BYTES,
    "enable.auto.commit": _COMMITS,
    "auto.commit.enable": _COMMITS,
    "enable.auto.offset.store": _COMMITS,
    "offset.store.method": _COMMITS,
    "interceptor.classes": "it names Java classes; use DataFrame operations",
    "enable.partition.eof": _OURS,
    "group.protocol": "the driver is a member by the classic protocol; leave it out",
    "group.protocol.type": "the driver is a member by the classic protocol; leave it out",
    "group.remote.assignor": "executors are assigned here; use partition.assignment.strategy",
    "plugin.library.paths": "plug-ins are not loaded; leave it out",
    "test.mock.num.brokers": "every client would have a cluster of its own; give kafka.bootstrap.servers of one",
    "test.mock.broker.rtt": "every client would have a cluster of its own; give kafka.bootstrap.servers of one",
    "log_cb": _OURS,
    "log.queue": _OURS,
    "opaque": _OURS,
    "default_topic_conf": _OURS,
}

RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.mechanism": "sasl.mechanisms",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}

NO_EFFECT = {
    "auto.commit.interval.ms": _COMMITS,
    "auto.include.jmx.reporter": "there is no JVM; see metrics.port",
    "exclude.internal.topics": "internal topics are read only when named",
    "internal.leave.group.on.close": "the driver's static member never leaves",
    "max.poll.interval.ms": "the group's own limit is rebalance.timeout.ms",
    "max.poll.records": "records are read in whole fetches",
    "metric.reporters": "there is no JVM; see metrics.port",
    "metrics.num.samples": "there is no JVM; see metrics.port",
    "metrics.recording.level": "there is no JVM; see metrics.port",
    "metrics.sample.window.ms": "there is no JVM; see metrics.port",
    "share.acknowledgement.mode": "there are no share groups here",
    "socket.connection.setup.timeout.max.ms": "there is one limit, kafka.socket.connection.setup.timeout.ms",
    "statistics.interval.ms": "see metrics.port",
}

# For the proposal only: what users write most.  librdkafka itself decides what is known.
_PROPOSED = (
    *RENAMED,
    *NO_EFFECT,
    *REFUSED,
    *(
        "bootstrap.servers",
        "client.id",
        "client.rack",
        "client.dns.lookup",
        "check.crcs",
        "connections.max.idle.ms",
        "debug",
    ),
    *(
        "fetch.error.backoff.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "fetch.message.max.bytes",
        "fetch.queue.backoff.ms",
        "fetch.wait.max.ms",
    ),
    *(
        "isolation.level",
        "max.partition.fetch.bytes",
        "metadata.max.age.ms",
        "queued.max.messages.kbytes",
        "queued.min.messages",
    ),
    *(
        "receive.message.max.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
    ),
    *(
        "sasl.jaas.config",
        "sasl.kerberos.keytab",
        "sasl.kerberos.principal",
        "sasl.kerberos.service.name",
        "sasl.mechanisms",
    ),
    *(
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.method",
    ),
    *(
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.username",
        "security.protocol",
    ),
    *(
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.receive.buffer.bytes",
        "socket.timeout.ms",
    ),
    *(
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.crl.location",
    ),
    *(
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.location",
    ),
    *(
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ),
    *("default.api.timeout.ms", "group.id", "group.instance.id", "session.timeout.ms", "heartbeat.interval.ms"),
)


def translate(java: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """librdkafka's settings for these bare ``kafka.*`` options, and the warnings that they are worth.

    Raises ``OptionError`` naming the option that is refused, unknown or malformed.
    """
    kept: dict[str, str] = {}
    warnings: list[str] = []
    for name, value in java.items():
        if name in REFUSED:
            raise OptionError(f"option kafka.{name} is not supported: {REFUSED[name]}")
        if name in NO_EFFECT:
            warnings.append(f"option kafka.{name} has no effect: {NO_EFFECT[name]}")
        else:
            kept[name] = value
    out, more = security_settings.translate(kept)
    conf: dict[str, str] = {}
    for name, value in out.items():
        _put(conf, RENAMED.get(name, name), _value(name, value))
    warnings += [
        f"option kafka.{name} is shown whole by df.explain(True) and in Spark's UI, whose default redaction does not know "
        "it: set spark.redaction.regex and spark.sql.redaction.options.regex as conf/spark-defaults.conf has them"
        for name in security_settings.shown_by_spark(java)
    ]
    conf.setdefault("isolation.level", "read_uncommitted")  # Java's default; librdkafka's is read_committed
    return conf, warnings + more + check(conf, java)


def _put(conf: dict[str, str], name: str, value: str) -> None:
    if conf.get(name, value) != value:
        names = [name, *(old for old, new in RENAMED.items() if new == name)]
        both = " and ".join(f"kafka.{each}" for each in sorted(names))
        raise OptionError(f"options {both} mean the same and differ: leave one out")
    conf[name] = value


def _value(name: str, value: str) -> str:
    if name in ("receive.buffer.bytes", "send.buffer.bytes") and value.strip() == "-1":
        return "0"  # the operating system's default, in both languages
    if name in ("isolation.level", "security.protocol"):
        return value.strip().lower()
    return value.strip() if name == "sasl.mechanism" else value


class _Lines(logging.Handler):
    """Collects what librdkafka logs while a client is made."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def check(conf: Mapping[str, str], given: Mapping[str, str]) -> list[str]:
    """Let librdkafka judge the settings, without any broker; returns its warnings.

    ``given`` are the same settings as the user wrote them, for the message's sake.  Raises ``OptionError`` for what
    librdkafka refuses.
    """
    probed = {name: value for name, value in conf.items() if name not in ("bootstrap.servers", "debug")}
    refusal, ignored = _probe(probed)
    if refusal:
        raise OptionError(_explain(refusal, probed, given))
    return ignored


def _probe(conf: Mapping[str, str]) -> tuple[str, list[str]]:
    """Make a consumer and drop it: librdkafka's refusal, or its warnings."""
    lines = _Lines()
    logger = logging.Logger("sparkcohort.check")  # noqa: LOG001  nobody else's, gone with this call
    logger.addHandler(lines)
    try:
        consumer = Consumer({"group.id": "check", **conf}, logger=logger)
    except (KafkaException, TypeError, ValueError) as error:
        first = error.args[0] if error.args else error
        text = str(first.str()) if isinstance(first, KafkaError) else str(first)
        return security_settings.redact_text(text, conf).strip().removeprefix("Failed to create consumer: "), []
    consumer.poll(0)
    consumer.close()
    ignored = [line.partition("Configuration property ")[2] for line in lines.lines if "will be ignored" in line]
    return "", [f"option kafka.{text.partition(' ')[0]} has no effect: it {text.partition(' ')[2]}" for text in ignored]


def _explain(refusal: str, conf: Mapping[str, str], given: Mapping[str, str]) -> str:
    """librdkafka's refusal, with the option that it is about: the one that is refused by itself too."""
    if refusal.startswith("No such configuration property:"):
        name = refusal.split('"')[1]
        return f"option kafka.{name} is unknown{nearest(name)}"
    if "No provider for SASL mechanism GSSAPI" in refusal:
        return _without_kerberos(refusal, given)
    if "SASL mechanism" in refusal:
        return f"option kafka.sasl.mechanism: {refusal}"
    together = {name: conf[name] for name in ("security.protocol",) if name in conf}
    for name, value in conf.items():
        if _probe({**together, name: value})[0] == refusal:
            return f"option kafka.{_as_given(name, given)}: {refusal}"
    return f"the kafka.* options {', '.join(sorted(given))} do not go together: {refusal}"


def _without_kerberos(refusal: str, given: Mapping[str, str]) -> str:
    """GSSAPI is librdkafka's default mechanism, and confluent-kafka's wheels are built without it."""
    asked = "sasl.mechanism" in given or "sasl.mechanisms" in given or "sasl.jaas.config" in given
    built = refusal.partition("Current build options: ")[2] or "PLAIN SASL_SCRAM OAUTHBEARER"
    return (
        f"option kafka.sasl.mechanism{'=GSSAPI' if asked else ' is missing, and its default GSSAPI'} (Kerberos) is not in "
        f"this confluent-kafka, which has {', '.join(built.replace('SASL_', '').split())}: set kafka.sasl.mechanism to one "
        "that your brokers offer, or build confluent-kafka from source against a librdkafka that has libsasl2"
    )


def _as_given(name: str, given: Mapping[str, str]) -> str:
    """The name by which the user gave what librdkafka calls ``name``."""
    java = [old for old, new in (*RENAMED.items(), *security_settings.STORES) if new == name and old in given]
    return java[0] if java else name


def nearest(name: str) -> str:
    """``; did you mean kafka.X?`` where some setting is called nearly so, else nothing."""
    near = difflib.get_close_matches(name, _PROPOSED, n=1, cutoff=0.7)
    return f"; did you mean kafka.{near[0]}?" if near else "; neither Kafka's consumer nor librdkafka has it"
