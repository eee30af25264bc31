"""Pythons without Cohort, or of another version: what a newcomer's machine has, and what ``register`` says of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import psutil
import pyspark
import pytest

from sparkcohort.streaming.installation import jar_path
from tests.kit import interpreters
from tests.kit.application import Application
from tests.kit.broker import Broker
from tests.kit.produce import produce
from tests.kit.spark_home import spark_home
from tests.kit.streams import options

pytestmark = pytest.mark.thorough("other interpreters, each with a Spark of its own")

SCRIPT = Path(__file__).parent / "scripts" / "registers.py"
SUBMIT = Path(str(pyspark.__file__)).parent / "bin" / "spark-submit"
LIMIT_S = 150.0


def told(directory: Path, *command: str, **env: str) -> dict[str, str]:
    """What the script has told, run where nothing of Cohort lies about."""
    at = interpreters.undisturbed(**env)
    done = subprocess.run(
        [*command, str(directory)], env=at, cwd=directory, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 1, done.stdout + done.stderr
    found: dict[str, str] = json.loads(lines[0])
    return found


@pytest.mark.timeout(300)
def test_a_python_in_path_without_cohort(tmp_path: Path) -> None:
    """Spark takes PATH's python3: the format isn't found, and ``register`` says which Python that is, why, and what to set."""
    python = interpreters.without_cohort(tmp_path / "other")
    said = told(tmp_path, sys.executable, "-P", str(SCRIPT), PATH=interpreters.in_path(python))
    assert "DATA_SOURCE_NOT_FOUND" in said["unregistered"]
    assert f"Spark's Python on the driver is {python}" in said["register"]
    assert "it has no Cohort" in said["register"]
    assert f"export PYSPARK_PYTHON={sys.executable}" in said["register"]
    assert len(said["register"].splitlines()) == 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("has_python", [True, False])
def test_the_jar_where_python_has_no_cohort(tmp_path: Path, has_python: bool) -> None:
    """The jar knows the name, and Python, if there is one, not the class: Spark's own words."""
    python = interpreters.without_cohort(tmp_path / "other") if has_python else tmp_path / "nowhere"
    command = [str(SUBMIT), "--jars", str(jar_path()), "--conf", f"spark.pyspark.python={sys.executable}", str(SCRIPT)]
    said = told(tmp_path, *command, PYSPARK_DRIVER_PYTHON=str(python), SPARK_HOME=str(SUBMIT.parents[1]))
    assert "DATA_SOURCE_NOT_EXIST" in said["unregistered"]


@pytest.mark.timeout(300)
def test_a_python_that_does_not_run(tmp_path: Path) -> None:
    """Not even there: by name, and with the system's reason instead of Java's stack."""
    nowhere = str(tmp_path / "nowhere" / "python3")
    said = told(tmp_path, sys.executable, "-P", str(SCRIPT), PYSPARK_PYTHON=nowhere)
    assert said["register"].startswith(f"Spark's Python is {nowhere}: it does not run")
    assert "No such file or directory" in said["register"]
    assert len(said["register"].splitlines()) == 1


@pytest.mark.timeout(300)
def test_the_environment_of_the_quickstart(broker: Broker, topic: str, tmp_path: Path) -> None:
    """What ``sparkcohort[spark]`` brings, and no pandas: ``register`` looks at executors too, and has nothing to say."""
    broker.fill(topic, 100)
    python = interpreters.linked(tmp_path / "quickstart", ("pandas", "grpc", "googleapis", "zstandard"))
    absent = subprocess.run([str(python), "-c", "import pandas"], capture_output=True, timeout=60, check=False)
    assert absent.returncode == 1
    said = told(tmp_path, str(python), "-P", str(SCRIPT), broker.bootstrap, topic, PYSPARK_PYTHON=str(python))
    assert said == {"unregistered": "", "register": "", "batch": "100", "stream": "100"}


OTHER_VERSION = """
import collections, sys

names = ("major", "minor", "micro", "releaselevel", "serial")
sys.version_info = collections.namedtuple("version_info", names)(3, 99, 0, "final", 0)
"""


@pytest.mark.timeout(300)
def test_a_python_of_another_version(tmp_path: Path) -> None:
    """Both Pythons are named, and what to set.  (The other one is of this version too, and says that it isn't.)"""
    python = interpreters.without_cohort(tmp_path / "other")
    (next((tmp_path / "other").glob("lib/python*/site-packages")) / "sitecustomize.py").write_text(OTHER_VERSION)
    said = told(tmp_path, sys.executable, "-P", str(SCRIPT), PYSPARK_PYTHON=str(python))
    assert said["register"].startswith(f"Spark's Python is {python}: it is of another version")
    mine = ".".join(map(str, sys.version_info[:2]))
    assert f"it is of another version than this script's, which is {mine} ({sys.executable})" in said["register"]


@pytest.mark.timeout(300)
def test_register_makes_sparks_own_setting_count(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Spark's look-up of sources knows nothing of spark.pyspark.python; with ``register`` a stream and a batch read run with it."""
    broker.fill(topic, 100)
    python = interpreters.without_cohort(tmp_path / "other")
    command = [str(SUBMIT), "--conf", f"spark.pyspark.python={sys.executable}", str(SCRIPT), broker.bootstrap, topic]
    home = str(SUBMIT.parents[1])
    said = told(tmp_path, *command, PATH=interpreters.in_path(python), SPARK_HOME=home)
    assert "DATA_SOURCE_NOT_FOUND" in said["unregistered"]
    assert said["register"] == ""
    assert (said["stream"], said["batch"]) == ("100", "100")


@pytest.mark.timeout(300)
def test_a_program_that_is_no_python(broker: Broker, topic: str, tmp_path: Path) -> None:
    """PYSPARK_DRIVER_PYTHON=jupyter, as for notebooks: Spark would look for sources with it; ``register`` doesn't."""
    broker.fill(topic, 100)
    notebook = tmp_path / "jupyter"
    notebook.write_text("#!/bin/sh\nexit 3\n")
    notebook.chmod(0o755)
    env = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": str(notebook)}
    said = told(tmp_path, sys.executable, "-P", str(SCRIPT), broker.bootstrap, topic, **env)
    assert "DATA_SOURCE_NOT_FOUND" in said["unregistered"]
    assert said["register"] == ""
    assert (said["stream"], said["batch"]) == ("100", "100")


@pytest.mark.timeout(300)
def test_an_environment_that_comes_along(broker: Broker, topic: str, tmp_path: Path) -> None:
    """As on YARN in client mode: an archive that executors unpack, ./environment on all sides, and a member's agent out of it.

    Where Spark has archives of PySpark, as it has them: each daemon is out of that environment, and a worker that dies is
    replaced.  Only Python's reader has one.
    """
    broker.fill(topic, 4_000, 4)
    interpreters.linked(tmp_path / "environment")
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "environment", ".")
    conf = {"spark.archives": f"{tmp_path / 'environment.tar.gz'}#environment"}
    env = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), "./environment/bin/python3")
    application = Application(tmp_path / "app", master="local-cluster[1,2,1024]", conf=conf, env=env, zipped=True)
    (application.directory / "environment").symlink_to(tmp_path / "environment")
    with application:
        query = application.start(topic, options(broker, topic, reader="python"))
        query.wait_for_members(1)
        (agent,) = application.driver.agents()
        work = spark_home() / "work"
        assert Path(agent.cmdline()[0]).is_relative_to(work), agent.cmdline()
        (executor,) = application.driver.executors()
        daemons = [each for each in psutil.Process(executor.pid).children() if "pyspark.worker" in each.cmdline()]
        assert daemons and all(Path(each.cwd(), each.cmdline()[0]).is_relative_to(work) for each in daemons)
        assert all("pyspark.zip" in each.environ()["PYTHONPATH"] for each in daemons)
        for worker in daemons[0].children():
            worker.kill()
        produce(broker.bootstrap, topic, 4_000, partitions=4, first=1_000)
        query.assert_exact(broker)
