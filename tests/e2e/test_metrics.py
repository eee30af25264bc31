"""A live query as seen from outside: the metrics endpoint and the command, beside Kafka's own tool."""

from __future__ import annotations

import errno
import json
import socket
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from sparkcohort.runtime.shell.driver.metric_specs import METRICS
from sparkcohort.runtime.shell.rpc import connection_file
from tests.kit import consumer_groups
from tests.kit.broker import Broker
from tests.kit.command import process
from tests.kit.streams import ASAP, Stream, options
from tests.kit.waiting import wait_until

PARTITIONS = 4
RECORDS = 2_000
LIMIT_S = 200


def asked(command: str, group: str, *flags: str) -> tuple[int, list[dict[str, Any]], str]:
    """Status, rows and errors of ``cohort COMMAND --output json``."""
    done = process(command, "--group", group, "--output", "json", *flags)
    return done.returncode, json.loads(done.stdout or "[]"), done.stderr


def scraped(port: int) -> dict[tuple[str, str], float]:
    """The samples of a scrape by (name, the one label that is not the group, or nothing)."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    labels = [
        ",".join(v for name, v in sorted(each.labels.items()) if name not in ("group", "topic")) for each in samples
    ]
    return {(each.name, label): each.value for each, label in zip(samples, labels, strict=True)}


def refuses(port: int) -> bool:
    """Whether nobody listens there."""
    with closing(socket.socket()) as caller:
        return caller.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


def caught_up(group: str) -> bool:
    """Whether every partition is committed to its end."""
    status, rows, _ = asked("describe", group)
    return status == 0 and [row["lag"] for row in rows] == [0] * PARTITIONS


@pytest.mark.timeout(400)
def test_a_live_query_is_seen(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path, port: int) -> None:
    """The command and the metrics tell what Kafka's own tool tells, and who owns what; with the query both are gone.

    The query is found again after somebody has cleaned the folder of connection files.
    """
    broker.fill(topic, RECORDS, PARTITIONS)
    given = options(broker, topic, metrics__port=port)
    with Stream(spark, given, checkpoint, trigger=ASAP) as run:
        run.wait_for_rows(RECORDS, LIMIT_S)
        wait_until(lambda: caught_up(topic), LIMIT_S, "the commit of the last batch")
        ours, members = (asked("describe", topic, *flags)[1] for flags in ((), ("--members", "--verbose")))
        samples = scraped(port)
        theirs = consumer_groups.describe(broker.bootstrap, topic)
        file = connection_file.home() / f"{connection_file.find_one(topic).run.run_id}.json"
        file.unlink()
        wait_until(lambda: caught_up(topic), LIMIT_S, "another connection file")
    names = ("topic", "partition", "current_offset", "log_end_offset", "lag")
    assert [[row[name] for name in names] for row in ours] == [[getattr(row, name) for name in names] for row in theirs]
    (member,) = members
    assert member["partitions"] == PARTITIONS
    assert {row["consumer_id"] for row in ours} == {member["consumer_id"]}
    assert {name for name, _ in samples} >= {spec.name for spec in METRICS if not spec.labels and spec.kind == "gauge"}
    assert samples["cohort_group_state", "Stable"] == 1
    assert samples["cohort_group_members", ""] == 1
    assert [samples["cohort_partition_lag_records", str(number)] for number in range(PARTITIONS)] == [0] * PARTITIONS
    assert sum(samples["cohort_records_consumed_total", path] for path in ("agent", "direct")) == RECORDS
    assert samples["cohort_commits_total", ""] >= 1
    assert samples["cohort_rebalances_total", "member_joined"] >= 1
    wait_until(lambda: asked("describe", topic)[0] != 0, LIMIT_S, "the end of the run")
    wait_until(lambda: refuses(port), LIMIT_S, "the end of the endpoint")
