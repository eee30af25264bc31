"""The chart of docs/operate/on-call.md: each of its commands, put to a live query, has the answer that the page promises."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit import consumer_groups
from tests.kit.broker import Broker
from tests.kit.command import process
from tests.kit.jars import ROOT
from tests.kit.streams import ASAP, Stream, options

pytestmark = pytest.mark.thorough("each command of the page on call")

PARTITIONS, RECORDS = 4, 2_000
ROW = re.compile(r"^\| ([^|`]+) \| `((?:cohort|kafka-consumer-groups) [^`]+)` \| ", re.MULTILINE)
ANSWERS = {
    "lag grows": r"AGE +TREND",
    "some partitions lag": r"CURRENT-OFFSET.*CLIENT-ID",
    "one executor is slow": r"HEARTBEAT-AGE-MS",
    "it rebalances": r"REASON",
    "partitions moved": r"before|BEFORE",
    "an executor has no partitions": r"joined",
    "a batch hangs": r"STATE.*\n.* Stable",
    "a partition stands still": r"LAG",
    "retention comes near, or you want to restart": r"(?s)LOG-START.*LOST.*a restart goes on",
    "you restarted: what was read twice?": r"BATCH +STATE +PLANNED.*RECORDS",
    "somebody else is in the group": r"cohort-[0-9a-f]+",
    "no driver answers": r"HOST.*\nGROUP .*127\.0\.0\.1",
    "which process is it?": r"cohort-[0-9a-f]+",
    "it does not start; Kafka, network or us?": r"(?i)broker",
}
"""By what one sees, what the answer of its command has in it."""


def questions() -> dict[str, str]:
    """The commands of the page's chart, by what one sees."""
    chart = (ROOT / "docs/operate/on-call.md").read_text().partition("\n## ")[0]
    return dict(ROW.findall(chart))


def asked(line: str, words: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The answer to a command of the page, its names replaced by real ones.  Raises TimeoutExpired after a minute."""
    for old, new in words.items():
        line = line.replace(old, new)
    if line.startswith("kafka-"):
        _, _, bootstrap, *arguments = shlex.split(line)
        return subprocess.CompletedProcess(line, 0, consumer_groups.run(bootstrap, *arguments), "")
    return process(*shlex.split(line)[1:])


@pytest.mark.timeout(600)
def test_each_sight_has_its_answer(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path) -> None:
    """All of them, each within a minute; status 0, but for the doctor, whose finding is an answer too."""
    broker.fill(topic, RECORDS, PARTITIONS)
    words = {"/checkpoints/billing": str(checkpoint), "broker:9092": broker.bootstrap}
    words |= {"billing": topic, "orders": topic, "executor-3": "executor-driver"}
    assert questions().keys() == ANSWERS.keys()
    with Stream(spark, options(broker, topic), checkpoint, trigger=ASAP) as run:
        run.wait_for_rows(RECORDS, 200)
        for sight, line in questions().items():
            answer = asked(line, words)
            assert re.search(ANSWERS[sight].replace("GROUP", topic), answer.stdout), (
                line,
                answer.stdout,
                answer.stderr,
            )
            assert answer.returncode == 0 or (" doctor " in line and answer.returncode == 1), (line, answer.stderr)
