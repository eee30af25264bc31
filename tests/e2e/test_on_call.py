"""The questions of docs/operate/on-call.md: each of its commands, put to a live query, has the answer that the page promises."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.broker import Broker
from tests.kit.jars import ROOT
from tests.kit.produce import produce
from tests.kit.streams import ASAP, Stream, options

pytestmark = pytest.mark.thorough("each command of the page on call")

PARTITIONS, RECORDS, WITHIN_S = 4, 2_000, 60
QUESTION = re.compile(r"^## (\d+)\. .+?\n\n```\n(.*?)```", re.MULTILINE | re.DOTALL)
ANSWERS = {
    1: [r"AGE +TREND"],
    2: [r"CURRENT-OFFSET.*CLIENT-ID", r"HEARTBEAT-AGE-MS"],
    3: [r"REASON", r"before|BEFORE", r"joined"],
    4: [r"STATE.*\n.* Stable", r"LAG"],
    5: [r"LOG-START.*LOST"],
    6: [r"cohort-[0-9a-f]+"],
    7: [r"a restart goes on"],
    8: [r"BATCH +STATE +PLANNED.*RECORDS"],
    9: [r"COHORT-DRIVER.*\n(.*\n)*GROUP\S* +Stable.*127\.0\.0\.1", r"cohort-[0-9a-f]+"],
    10: [r"(?i)broker"],
}
"""By question, what the answer of each of its commands has in it."""


def questions() -> dict[int, list[str]]:
    """The commands of the page by question."""
    text = (ROOT / "docs/operate/on-call.md").read_text()
    return {int(number): body.splitlines() for number, body in QUESTION.findall(text)}


def asked(line: str, words: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The answer to a command of the page, its names replaced by real ones.  Raises TimeoutExpired after a minute."""
    for old, new in words.items():
        line = line.replace(old, new)
    command = [sys.executable, "-m", "sparkcohort.cli.main", *shlex.split(line)[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)


@pytest.mark.timeout(600)
def test_each_question_has_its_answer(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path) -> None:
    """Ten of them, each within a minute; status 0, but for the doctor, whose finding is an answer too."""
    broker.admin.create_topic(topic, PARTITIONS)
    produce(broker.bootstrap, topic, RECORDS, partitions=PARTITIONS)
    words = {"/checkpoints/billing": str(checkpoint), "broker:9092": broker.bootstrap}
    words |= {"billing": topic, "orders": topic, "executor-3": "executor-driver"}
    assert [*questions()] == [*range(1, 11)] == [*ANSWERS]
    with Stream(spark, options(broker, topic), checkpoint, trigger=ASAP) as run:
        run.wait_for_rows(RECORDS, 200)
        for number, lines in questions().items():
            for line, expected in zip(lines, ANSWERS[number], strict=True):
                said = asked(line, words)
                assert re.search(expected.replace("GROUP", topic), said.stdout), (line, said.stdout, said.stderr)
                assert said.returncode == 0 or (number == 10 and said.returncode == 1), (line, said.stderr)
