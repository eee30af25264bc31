"""Queries that log in with tokens of a function which the user ships: tokens that end while they run, and none to be had."""

from __future__ import annotations

import uuid
import zipfile
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.e2e.test_exactly_once import commit_processes, exactly_once
from tests.kit import delivery, tokens
from tests.kit.batch_reads import load
from tests.kit.broker import Broker
from tests.kit.produce import Steady
from tests.kit.streams import ASAP, Stream, options
from tests.kit.tokens import Desk
from tests.kit.waiting import wait_until
from tests.kit.writes import LineStream, load_committed

LIFE_S = 8.0
LIMIT_S = 120.0
PARTITIONS = 4
PROVIDER = "shipped_tokens:unsecured"


@pytest.fixture
def topic(guarded: Broker) -> str:
    """A topic that alice may read, as a group of that name."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    guarded.admin.create_topic(name, PARTITIONS)
    guarded.admin.allow("alice", "topic", name, "read", "describe")
    guarded.admin.allow("alice", "group", name, "read", "describe")
    return name


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Where tokens are made."""
    folder = tmp_path / "desk"
    folder.mkdir()
    return Desk(folder, lifetime_s=LIFE_S)


def archive(folder: Path) -> str:
    """The provider in a zip file, which PySpark's workers of data sources don't look into."""
    path = folder / "tokens.zip"
    with zipfile.ZipFile(path, "w") as archived:
        archived.write(tokens.__file__, "shipped_tokens.py")
    return str(path)


@pytest.fixture(scope="module")
def shipped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The provider, shipped by Spark."""
    spark.sparkContext.addPyFile(archive(tmp_path_factory.mktemp("shipped")))
    return PROVIDER


def given(broker: Broker, topic: str, desk: Desk, provider: str = PROVIDER) -> dict[str, str]:
    """The options of a stream that logs in with the desk's tokens."""
    return options(broker, topic) | tokens.token_options(broker.at["SASL_PLAINTEXT"], desk, provider)


@pytest.mark.timeout(240)
def test_tokens_that_end_while_a_query_runs(
    spark: SparkSession, guarded: Broker, topic: str, desk: Desk, shipped: str, checkpoint: Path
) -> None:
    """Two lives of a token and more, with a maker that fails where one ends: every record comes once."""
    with Stream(spark, given(guarded, topic, desk, shipped), checkpoint, trigger=ASAP) as run:
        with Steady(guarded.bootstrap, topic, partitions=PARTITIONS, rate=200) as steady:
            run.wait_for_rows(100)
            desk.fails = "the identity provider is away"
            wait_until(desk.failures, LIMIT_S, "a call that fails")
            made = len(desk.calls())
            desk.fails = ""
            wait_until(lambda: len(desk.calls()) > made + 2, LIMIT_S, "tokens of another life")
        run.wait_for_rows(sum(steady.counts.values()))
    delivery.check(run.delivered(), delivery.held(guarded.bootstrap, [topic])).assert_exact()
    makers = {pid for pid, _, _ in desk.calls()}
    assert len(makers) >= 2, "the driver's process and those that read"
    lives = (max(end for _, _, end in desk.calls()) - min(end for _, _, end in desk.calls())) / LIFE_S + 1
    for (
        pid
    ) in makers:  # nobody makes more tokens than lives have passed, twice over, whoever many clients a process has
        assert len([each for each, _, _ in desk.calls() if each == pid]) <= 2 * lives + 2


@pytest.mark.thorough("more uses of a token provider")
def test_no_token_to_be_had(
    spark: SparkSession, guarded: Broker, topic: str, desk: Desk, shipped: str, tmp_path: Path
) -> None:
    """A stream and a batch read end with one error that names the option, whatever is wrong with the function."""
    desk.fails = "no such tenant"
    raised = Stream(spark, given(guarded, topic, desk, shipped), tmp_path / "a").failure()
    assert f"option kafka.sasl.oauthbearer.provider={shipped} raised ConnectionError: no such tenant" in raised
    missing = Stream(spark, given(guarded, topic, desk, "no_such_module:f"), tmp_path / "b").failure()
    assert "option kafka.sasl.oauthbearer.provider=no_such_module:f cannot be imported on" in missing
    assert "--py-files" in missing
    login = tokens.token_options(guarded.at["SASL_PLAINTEXT"], desk, "os.path:join")
    with pytest.raises(PySparkException, match=r"provider=os\.path:join raised TypeError"):
        load(spark, guarded, topic, **login).count()


@pytest.mark.thorough("one more use of a token provider")
def test_an_exactly_once_sink_logs_in_by_shipped_code(
    spark: SparkSession, guarded: Broker, topic: str, desk: Desk, shipped: str, tmp_path: Path
) -> None:
    """The process that commits its batches finds the provider as Spark's workers do, and makes tokens of its own."""
    desk.become(f"user-{topic}")
    guarded.admin.allow(f"user-{topic}", "transactional_id", topic, "write", "describe")
    guarded.admin.allow(f"user-{topic}", "topic", topic, "write", "describe")
    guarded.admin.allow(f"user-{topic}", "topic", f"{topic}-state", "read", "write", "create")
    sink = exactly_once(topic, sink__state__topic=f"{topic}-state")
    login = tokens.token_options(guarded.at["SASL_PLAINTEXT"], desk, shipped)
    stream = LineStream(spark, tmp_path, guarded, "cohort", **sink, **login)
    stream.trigger = ASAP
    before = commit_processes()
    query = stream.start("a", "b")
    try:
        query.processAllAvailable()
        (committer,) = commit_processes() - before
    finally:
        query.stop()
    assert sorted(load_committed(spark, guarded, topic)) == ["a", "b"]
    assert committer in {pid for pid, _, _ in desk.calls()}
