"""Every option of the source: docs/options.md, ``conf/cohort.properties`` and the parser are made of this table.

An option with a value of its own is declared at its field, in ``source_options`` or ``sink_options``.  Here stand those that are read together.
Names and meanings are Spark's where Spark's Kafka source has the option, Kafka's where Kafka's consumer has it.
Keys are case-insensitive.  ``kafka.*`` options are not listed one by one: their table is ``kafka_settings``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sparkcohort.runtime.shell.options.declaration import Option, declared_options
from sparkcohort.runtime.shell.options.kafka_settings import Fate, names
from sparkcohort.runtime.shell.options.sink_options import SinkOptions
from sparkcohort.runtime.shell.options.source_options import SourceOptions

_WHAT_IS_READ = (
    Option(
        "subscribe",
        "list",
        "topics, comma-separated; exactly one of subscribe, subscribePattern, assign",
        example="orders,payments",
    ),
    Option(
        "subscribePattern",
        "string",
        "regular expression; every topic in which it is found is read (Spark's unanchored find)",
        example="^orders-.*",
    ),
    Option("assign", "JSON", 'fixed partitions, {"topic":[0,1]}', example='{"orders":[0,1]}'),
)

# Each exists for keys too: key.format and so on.
_VALUES = (
    Option(
        "value.format",
        "choice",
        "what the column is: binary; string, as CAST(value AS STRING); json, avro and protobuf, a struct; a write makes records of it",
        default="binary",
        choices=("binary", "string", "json", "avro", "protobuf"),
        heading="What is made of values; the same options exist for keys: key.format and so on",
        writes=True,
    ),
    Option(
        "value.schema",
        "string",
        "DDL for json (reads only), the schema's text or file for avro, the file of a descriptor set for protobuf, or its bytes in base64",
        example="id BIGINT, at TIMESTAMP",
        writes=True,
    ),
    Option(
        "value.message",
        "string",
        "protobuf: the message's name in the descriptor set",
        example="flights.Flight",
        writes=True,
    ),
    Option(
        "value.message.index",
        "choice",
        "protobuf in a registry's frame: same, a record of another message of its file is bad; any, it is read all the same, as in "
        "topics whose files were reordered",
        default="same",
        choices=("same", "any"),
    ),
    Option(
        "value.timezone",
        "string",
        "json: where a TIMESTAMP without a zone is from: Europe/Berlin, +05:30; default: UTC, if that is the session's; of a write: the zone that "
        "each is written in; default: the session's",
        example="Europe/Berlin",
        writes=True,
    ),
    Option(
        "value.mode",
        "choice",
        "a record that can't be decoded: permissive makes it null, dropmalformed drops the row, failfast ends the query",
        default="permissive",
        choices=("permissive", "dropmalformed", "failfast"),
    ),
    Option(
        "value.corrupt.column",
        "string",
        "a BINARY column for the bytes that can't be decoded",
        example="_corrupt_value",
    ),
    Option(
        "value.error.column",
        "string",
        "a column STRUCT<reason: STRING, message: STRING>: why they can't be decoded",
        example="_error_value",
    ),
    Option(
        "value.subject",
        "string",
        "the subject in the schema registry; default: the topic's for values, or for keys",
        example="flights-value",
        writes=True,
    ),
    Option(
        "value.schema.version",
        "string",
        "the version of the subject that records are read with, or written with by lookup: a number; default: the latest one",
        example="3",
        writes=True,
    ),
    Option(
        "value.schema.registration",
        "choice",
        "of a write: register the schema in the registry, or lookup: with value.schema its id, without it the subject's version for avro",
        default="register",
        choices=("register", "lookup"),
        reads="none",
        writes=True,
        instead="a read registers nothing",
    ),
)

_DEAD_LETTERS = (
    Option(
        "dead.letter.topic",
        "string",
        "a topic for records whose key or value can't be decoded, as they came, with headers that say why; written by the executors "
        "with this query's login",
        example="orders-dead",
        reads="streams",
    ),
)

_REGISTRY = (
    Option(
        "schema.registry.url",
        "list",
        "the schema registry: records have the frame of Confluent's serializers, and avro's schema comes from there (needs sparkcohort[registry]) unless value.schema gives it",
        example="https://registry.example.org:8081",
        heading="The schema registry",
        writes=True,
    ),
    Option(
        "schema.registry.timeout.ms",
        "milliseconds",
        "how long a schema may be waited for",
        default="30000",
        minimum=1,
        maximum=3_600_000,
        writes=True,
    ),
    Option(
        "schema.registry.*",
        "string",
        "Confluent's own names, for its address and login: basic.auth.user.info (user:password), bearer.auth.token, "
        "bearer.auth.logical.cluster, bearer.auth.identity.pool.id, ssl.ca.location, ssl.certificate.location, ssl.key.location (PEM files), "
        "ssl.key.password, proxy",
        example="basic.auth.user.info=billing:change-me",
        writes=True,
    ),
)

_LOGIN = (
    Option(
        "kafka.sasl.oauthbearer.provider",
        "dotted name",
        "package.module:function that makes tokens to log in with (OAUTHBEARER), on driver and executors; see operate/logins.md",
        writes=True,
        example="my_tokens:make",
    ),
)

STREAMS_HAVE_NO_END: Final = (
    "only batch reads, spark.read, end at an offset; use trigger(availableNow=True) to stop at what is there now"
)

_WITHOUT_EFFECT = (
    Option(
        "groupIdPrefix",
        "string",
        "Spark's prefix of a generated group id",
        status="accepted",
        instead="group.id names the group as a whole",
    ),
    Option(
        "partition.metadata.cache.ttl.ms",
        "integer",
        "newer than Spark 4.2: for how long Spark's source keeps the list of partitions",
        status="accepted",
        instead="metadata.max.age.ms says how soon a new partition is seen",
    ),
    Option(
        "path",
        "string",
        "load(path), save(path)",
        status="refused",
        instead="subscribe names the topics to read, topic the one to write to; call load(), save() and start() bare",
    ),
)

_SOURCE = tuple(declared_options(SourceOptions).values())
_SERVERS = _SOURCE[:1]

OPTIONS: Final = (
    *_SERVERS,
    *_WHAT_IS_READ,
    *_SOURCE[1:],
    *_VALUES,
    *_DEAD_LETTERS,
    *_REGISTRY,
    *_LOGIN,
    *declared_options(SinkOptions).values(),
    *_WITHOUT_EFFECT,
)
"""One row for each declaration."""

FAMILIES: Final = tuple(option.name.removesuffix("*") for option in OPTIONS if option.name.endswith(".*"))
"""Prefixes behind which every name is an option."""

BY_KEY: Final = {
    each.name.lower(): each
    for option in OPTIONS
    for each in (option, replace(option, name=option.name.replace("value.", "key.", 1)))
    if each is option or option in _VALUES
}
"""Every key, in lower case."""

# Kafka's own names of what are options of the group here: ``kafka.X`` means the same as ``X``.
KAFKA_ALIASES: Final = names(Fate.ALIAS)
