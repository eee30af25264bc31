"""The source's options: what is required, typed, refused, and how it is said."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.shell.options.table import OPTIONS
from tests.kit.options import LEAST, given, refused


def test_the_least_options_are_enough() -> None:
    """Brokers, a subscription and a group are all that has to be said; the rest has the defaults of the table."""
    options = given()
    assert options.bootstrap_servers == "b1:9092"
    assert options.subscription.topics == ("orders",)
    assert (options.starting_offsets, options.starting_offsets_fallback) == ("committed", "earliest")
    assert options.assignors == ("cooperative-sticky", "range")
    assert options.kafka["isolation.level"] == "read_uncommitted"
    assert options.warnings == ()


@pytest.mark.parametrize("name", ["kafka.bootstrap.servers", "group.id"])
def test_what_is_required_is_named_when_missing(name: str) -> None:
    """A missing required option is one error that names it."""
    assert name in refused(**{name.replace(".", "__"): None})


def test_exactly_one_subscription() -> None:
    """None and two ways of subscribing are errors that name them."""
    assert "subscribePattern" in refused(subscribe=None)
    assert "subscribe and assign" in refused(assign='{"orders":[0]}')


def test_keys_in_any_case() -> None:
    """PySpark hands keys over in lower case; users write them as they like."""
    options = parse({key.upper(): value for key, value in (LEAST | {"maxOffsetsPerTrigger": "7"}).items()})
    assert options.max_offsets_per_trigger == 7


def test_subscribe_is_trimmed_and_sorted() -> None:
    """Blanks and repetitions do not matter, and neither does the order: the instance id is the same."""
    assert given(subscribe=" b, a ,b").subscription.topics == ("a", "b")
    assert given(subscribe="b,a").group_instance_id == given(subscribe="a,b").group_instance_id


def test_instance_id_depends_on_the_subscription_only() -> None:
    """Two sources on other topics can share a group; the same topics give the same static member."""
    assert given().group_instance_id.startswith("cohort-")
    assert given().group_instance_id == given(maxOffsetsPerTrigger="5").group_instance_id
    assert given().group_instance_id != given(subscribe="other").group_instance_id
    assert given(group__instance__id="mine").group_instance_id == "mine"


def test_assign_names_partitions() -> None:
    """``assign`` is JSON of partition numbers."""
    assert given(subscribe=None, assign='{"t":[1,0]}').subscription.partitions == (
        TopicPartition("t", 0),
        TopicPartition("t", 1),
    )


def test_a_bad_pattern_or_topic_is_refused() -> None:
    """Expressions have to compile, topics have to be names."""
    assert "subscribePattern" in refused(subscribe=None, subscribePattern="(")
    assert "subscribePattern" in refused(subscribe="orders-.*")


def test_kafka_group_id_means_the_same() -> None:
    """``kafka.group.id`` alone is the group; equal to ``group.id`` it does no harm; different it is an error."""
    assert given(group__id=None, kafka__group__id="g").group_id == "g"
    assert given(kafka__group__id="billing").group_id == "billing"
    message = refused(kafka__group__id="other")
    assert "group.id" in message
    assert "kafka.group.id" in message


def test_unknown_options_name_the_nearest() -> None:
    """A typing mistake is answered with what was probably meant."""
    assert "startingOffsets" in refused(startingOffset="earliest")
    assert "kafka.fetch.min.bytes" in refused(fetch__min__bytes="1")
    assert "with the prefix: kafka.client.id" in refused(client__id="me")
    assert "did you mean value.subject, or key.subject?" in refused(subject="s")


def test_no_hint_leads_to_a_refusal() -> None:
    """What would be refused in its turn is not proposed."""
    assert refused(topics="a").endswith("is unknown; subscribe names the topics to read")
    assert refused(auto__offset__reset="latest").endswith(
        "where it is not supported: the source decides where to start; use startingOffsets"
    )


def test_commas_are_no_brokers() -> None:
    """Nothing is waited for."""
    assert "kafka.bootstrap.servers is missing" in refused(kafka__bootstrap__servers=" , ")


def test_numbers_say_of_what() -> None:
    """A date is none."""
    assert "'2026-11-01' is not a whole number of milliseconds since 1970" in refused(startingTimestamp="2026-11-01")
    assert "orders-0 has -1, which can't be" in refused(startingOffsetsByTimestamp='{"orders":{"0":-1}}')
    assert "out of bounds: 0 to 9223372036854775807" in refused(startingTimestamp="9" * 30)


@pytest.mark.parametrize("servers", ["a", "a:9092;b:9092", "a:9092,b", "::1", "a:b", "SSL://a", "[::1]", "a:9092/path"])
def test_brokers_have_a_port(servers: str) -> None:
    """As Kafka's own client wants it, and at once: nobody waits for a broker at a port that was never meant."""
    assert "give host:port,host:port" in refused(kafka__bootstrap__servers=servers)


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.status == "refused"], ids=lambda o: o.name)
def test_refused_options_say_what_to_use(option: object) -> None:
    """Each refused option of the table is an error with its remedy."""
    name, instead = option.name, option.instead  # type: ignore[attr-defined]
    message = refused(**{name: "x"})
    assert name in message
    assert instead in message


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.status == "accepted"], ids=lambda o: o.name)
def test_accepted_options_warn_once(option: object) -> None:
    """An option without effect is one warning that names it, and says what has that effect here."""
    name, instead = option.name, option.instead  # type: ignore[attr-defined]
    (warning,) = given(**{name.replace(".", "__"): "1"}).warnings
    assert name in warning
    assert instead in warning


@pytest.mark.parametrize(
    "option",
    [option for option in OPTIONS if option.default and option.reads in ("both", "streams")],
    ids=lambda o: o.name,
)
def test_every_default_is_a_value_of_its_option(option: object) -> None:
    """Writing a default out changes nothing."""
    name, default = option.name, option.default  # type: ignore[attr-defined]
    written = given(**{name.replace(".", "__"): default})
    assert replace(written, kafka_names=given().kafka_names) == given()  # but which of Kafka's settings are given


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maxOffsetsPerTrigger", "0"),
        ("maxOffsetsPerTrigger", "many"),
        ("maxOffsetsPerTrigger", '{"orders":5}'),
        ("maxOffsetsPerTrigger.topics", "5"),
        ("maxOffsetsPerTrigger.topics", "{}"),
        ("maxOffsetsPerTrigger.topics", ""),
        ("maxOffsetsPerTrigger.topics", '{"orders":0}'),
        ("maxOffsetsPerTrigger.topics", '{"orders":"5"}'),
        ("maxOffsetsPerTrigger.topics", '{"order":5}'),
        ("maxBytesPerTrigger", "0"),
        ("maxBytesPerTrigger", "64 megs"),
        ("maxBytesPerTrigger", "9999999999t"),
        ("minPartitions", ""),
        ("failOnDataLoss", "yes"),
        ("unreachable.partitions", "drop"),
        ("session.timeout.ms", "2000000"),
        ("metrics.port", "70000"),
        ("coordinator.host", "driver.example.org:7077"),
        ("coordinator.host", "[::1]:7077"),
        ("coordinator.host", "[driver]"),
        ("coordinator.host", "fe80::1%eth0"),
        ("metrics.address", "127.0.0.1 9090"),
        ("maxTriggerDelay", "soon"),
        ("maxTriggerDelay", "9223372036854775807d"),
        ("maxOffsetsPerTrigger", "1_000"),
        ("maxOffsetsPerTrigger", "\u0661"),
        ("maxOffsetsPerTrigger", "9" * 5000),
        ("load.balance.threshold", "1_2"),
        ("maxOffsetsPerTrigger.topics", '{"orders":5,"orders":6}'),
        ("startingOffsets", "last"),
        ("startingOffsets", "{}"),
        ("startingOffsets.fallback", "committed"),
        ("startingOffsetsByTimestamp", '{"orders":{"0":-1}}'),
        ("startingOffsetsByTimestampStrategy", "earliest"),
        ("partition.assignment.strategy", " , "),
        ("partition.assignment.strategy", "range;sticky"),
        ("partition.assignment.strategy", "my_module:"),
        ("partition.assignment.strategy", "org.apache.kafka.clients.consumer.UniformAssignor"),
        ("client.rack.env", "$NODE_ZONE"),
        ("rebalance.listener", "Listener"),
        ("rebalance.listener", "audit/listener.py"),
    ],
)
def test_bad_values_name_their_option(name: str, value: str) -> None:
    """A malformed value is one error that begins with the option's name."""
    assert refused(**{name.replace(".", "__"): value}).startswith(f"option {name}")


@pytest.mark.parametrize(
    "text",
    [
        '{"orders":[2147483648]}',
        '{"or ders":[0]}',
        '{"orders":[0],"orders":[1]}',
        '{"..":[0]}',
        "{}",
        "[0]",
        '{"orders":["0"]}',
    ],
)
def test_partitions_that_cannot_be(text: str) -> None:
    """What ``assign`` can't take is one error that begins with its name."""
    assert refused(subscribe=None, assign=text).startswith("option assign")


@pytest.mark.parametrize("host", ["driver", "driver_1.example.org", "192.0.2.1", "2001:db8::1", "::1"])
def test_hosts_as_people_write_them(host: str) -> None:
    """Names and addresses; an IPv6 one has brackets where Spark wants them, and none where a resolver does."""
    written = {host, f"[{host}]"} if ":" in host else {host}
    for text in written:
        parsed = parse({**LEAST, "coordinator.host": text, "metrics.address": f" {text}"})
        assert (parsed.coordinator_host, parsed.metrics_address) == (host, host)


def test_starting_offsets_by_json() -> None:
    """Spark's JSON, with -2 and -1, in order of partitions."""
    start = given(startingOffsets='{"orders":{"10":-1,"2":-2,"0":5}}').starting_offsets
    assert start == {TopicPartition("orders", 0): 5, TopicPartition("orders", 2): -2, TopicPartition("orders", 10): -1}
    assert [*start] == sorted(start)


def test_limits_of_topics_name_what_is_read() -> None:
    """A topic that isn't read is refused, with the nearest that is; with a pattern, one that it can never find."""
    assert given(maxOffsetsPerTrigger__topics='{"orders":5}').max_offsets_by_topic == {"orders": 5}
    assert given().max_offsets_by_topic == {}
    assert refused(maxOffsetsPerTrigger__topics='{"order":5}').endswith("did you mean orders?")
    assert "which option subscribe does not read: name it" in refused(maxOffsetsPerTrigger__topics='{"x":5}')
    assigned = {"subscribe": None, "assign": '{"t":[0]}'}
    assert given(**assigned, maxOffsetsPerTrigger__topics='{"t":5}').max_offsets_by_topic == {"t": 5}
    patterned = {"subscribe": None, "subscribePattern": "^eu-"}
    assert given(**patterned, maxOffsetsPerTrigger__topics='{"eu-b":5,"eu-a":6}').max_offsets_by_topic == {
        "eu-a": 6,
        "eu-b": 5,
    }
    assert "names us-a" in refused(**patterned, maxOffsetsPerTrigger__topics='{"us-a":5}')
    assert "maxOffsetsPerTrigger.topics" in refused(maxOffsetsPerTrigger='{"orders":5}')
    assert "did you mean maxOffsetsPerTrigger.topics?" in refused(maxOffsetsPerTrigger__topic='{"orders":5}')


def test_sizes_as_spark_writes_them() -> None:
    """Units are powers of 1,024; bytes where there is none."""
    texts = ("1", "64m", "64 MB", "1g", "2GiB", "3k", "1t", "10b")
    assert [given(maxBytesPerTrigger=text).max_bytes_per_trigger for text in texts] == [
        *(1, 64 << 20, 64 << 20, 1 << 30),
        *(2 << 30, 3 << 10, 1 << 40, 10),
    ]
    assert given().max_bytes_per_trigger is None


def test_durations_as_spark_writes_them() -> None:
    """Units, and milliseconds where there is none."""
    texts = ("15m", " 90S ", "500ms", "900000", "1h", "2min", "1999us", "1d", "0")
    assert [given(maxTriggerDelay=text).max_trigger_delay_ms for text in texts] == [
        *(900_000, 90_000, 500, 900_000),
        *(3_600_000, 120_000, 1, 86_400_000, 0),
    ]


def test_a_pattern_is_javas() -> None:
    """It is kept as it was written; what can't be had is named, with its place."""
    assert (
        given(subscribe=None, subscribePattern=r"^\Qeu.\E[a-z&&[^b]]+").subscription.pattern == r"^\Qeu.\E[a-z&&[^b]]+"
    )
    message = refused(subscribe=None, subscribePattern=r"^eu\p{InGreek}")
    assert message.endswith("is not known here, at character 4") and "p{InGreek}" in message


def test_options_that_contradict_each_other() -> None:
    """Minimum over maximum, heartbeats slower than the session."""
    assert "minOffsetsPerTrigger" in refused(minOffsetsPerTrigger="9", maxOffsetsPerTrigger="5")
    assert "heartbeat.interval.ms" in refused(session__timeout__ms="3000")


def test_what_load_balanced_goes_by() -> None:
    """Its options are typed and bounded, and of no effect, which is told, where it isn't offered."""
    asked = {"load__balance__threshold": "1.5", "load__balance__after__ms": "2000", "load__balance__max__moves": "9"}
    options = given(partition__assignment__strategy="load-balanced,range", **asked)
    balance = (options.load_balance_threshold, options.load_balance_after_ms, options.load_balance_max_moves)
    assert (balance, options.warnings) == ((1.5, 2000, 9), ())
    idle = given(load__balance__threshold="1.5").warnings
    why = "partition.assignment.strategy does not name load-balanced"
    assert idle == (f"option load.balance.threshold has no effect: {why}",)
    for text in ("1", "0.5", "-2", "nan", "inf", "1e9"):
        bounds = f"option load.balance.threshold={text} is out of bounds: more than 1, at most 1000"
        assert refused(load__balance__threshold=text) == bounds
    assert refused(load__balance__threshold="twice") == (
        "option load.balance.threshold='twice' is not a number such as 1.2"
    )
    assert "load.balance.max.moves=0 is out of bounds: 1 to" in refused(load__balance__max__moves="0")


def test_each_executor_has_a_rack_of_its_own() -> None:
    """By the variable that client.rack.env names, else client.rack; the Kafka clients there have it too."""
    zoned = given(client__rack="r0", client__rack__env="NODE_ZONE")
    there = zoned.on_executor({"NODE_ZONE": "eu-1b", "ZONE": "eu-1c"})
    assert (there.client_rack, there.kafka["client.rack"]) == ("eu-1b", "eu-1b")
    for environment in ({}, {"NODE_ZONE": " "}):
        assert zoned.on_executor(environment).kafka["client.rack"] == "r0"
    assert given().on_executor({"": "x"}) == given()
    assert "client.rack" not in given(client__rack__env="NODE_ZONE").on_executor({}).kafka


def test_assignors_by_kafkas_class_names() -> None:
    """What a Java consumer is configured with works here too; a class of that name elsewhere is somebody's own."""
    kafkas = "org.apache.kafka.clients.consumer."
    classes = f"{kafkas}RangeAssignor, {kafkas}CooperativeStickyAssignor,StickyAssignor,{kafkas}RoundRobinAssignor"
    names = ("range", "cooperative-sticky", "sticky", "roundrobin")
    assert given(kafka__partition__assignment__strategy=classes).assignors == names
    own = ("mine", "my_module.RangeAssignor", "my.module:Mine")
    assert given(partition__assignment__strategy=",".join((*own, *own))).assignors == own
    assert "did you mean RoundRobinAssignor?" in refused(partition__assignment__strategy=f"{kafkas}RoundRobin")


def test_initial_hash_follows_the_start_only() -> None:
    """The pin changes with where a query starts and what it reads, with nothing else."""
    first = given().initial_hash()
    assert first == given(maxOffsetsPerTrigger="5", group__id="other").initial_hash()
    others = [
        given(startingOffsets="latest"),
        given(startingOffsets='{"orders":{"0":5}}'),
        given(startingOffsets__fallback="latest"),
        given(startingTimestamp="5"),
        given(subscribe="payments"),
    ]
    assert len({first, *(options.initial_hash() for options in others)}) == 6


def test_options_survive_pickling() -> None:
    """The reader is pickled with its options to the executors; an error to Spark."""
    options = given(startingOffsets='{"orders":{"0":5}}')
    assert pickle.loads(pickle.dumps(options)).__dict__ == options.__dict__  # noqa: S301  our own
    error = OptionError("message", "NAME")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert (str(again), again.error) == ("message", "NAME")
