"""``cohort doctor`` on a real broker that lets some in and shuts others out; what this host has; and what it must never print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sparkcohort.cli import doctor_host as host
from tests.kit.broker import Broker
from tests.kit.command import cohort
from tests.kit.produce import produce
from tests.kit.shared_brokers import USERS, Guarded

PASSWORD = USERS["alice"]


@pytest.fixture(autouse=True)
def this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would start the Python that runs the tests."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)


def seen(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit status, and the checks by name."""
    said = cohort("doctor", *arguments, "--output", "json")
    assert PASSWORD not in said.stdout + said.stderr
    return said.returncode, {each["check"]: each for each in json.loads(said.stdout)}


def login(tmp_path: Path, password: str = PASSWORD) -> str:
    """A file of alice's login."""
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{password}";\n'
    )
    return str(path)


def test_all_is_well(broker: Broker, topic: str) -> None:
    """A tick for each, and exit status 0."""
    broker.admin.create_topic(topic, 3)
    produce(broker.bootstrap, topic, 10, partitions=3)
    status, checks = seen(
        "--bootstrap-server", broker.bootstrap, "--option", f"subscribe={topic}", "--option", "group.id=g"
    )
    assert {name for name, each in checks.items() if each["result"] == "failed"} == set()
    assert status == 0
    assert checks[f"broker 1 at {broker.bootstrap}"]["found"].startswith("reached and logged in")
    assert checks[f"topic {topic}"]["found"].startswith("3 partitions")
    assert checks["executors"]["result"] == "not asked"


def test_each_permission_that_is_missing_has_its_line(guarded: Broker, topic: str, tmp_path: Path) -> None:
    """Nothing is allowed, then describe alone, then all: the line that is named is the one that helps, within a bounded time."""
    guarded.admin.create_topic(topic, 1)
    client = ("--bootstrap-server", guarded.sasl_bootstrap, "--command-config", login(tmp_path))
    given = (*client, "--option", f"subscribe={topic}", "--option", f"group.id={topic}")
    status, checks = seen(*given)
    assert status == 1
    assert f"--operation Read --operation Describe --topic {topic}" in checks[f"topic {topic}"]["remedy"]
    assert f"--operation Read --operation Describe --group {topic}" in checks[f"group {topic}"]["remedy"]
    guarded.admin.allow("alice", "topic", topic, "describe")
    assert f"--operation Read --topic {topic}" in seen(*given)[1][f"topic {topic}"]["remedy"]
    guarded.admin.allow("alice", "topic", topic, "read")
    guarded.admin.allow("alice", "group", topic, "read", "describe")
    guarded.admin.commit(topic, topic, {0: 0})
    status, checks = seen(*given)
    assert (status, checks[f"topic {topic}"]["result"], checks[f"group {topic}"]["result"]) == (0, "ok", "ok")


def test_a_refused_login_says_so_and_not_the_password(guarded: Broker, tmp_path: Path) -> None:
    """Known at once, without waiting for the time to be over."""
    config = login(tmp_path, "wrong-" + PASSWORD)
    status, checks = seen("--bootstrap-server", guarded.sasl_bootstrap, "--command-config", config)
    assert status == 1
    assert "authentication with" in checks["brokers"]["found"]


def test_a_listener_that_is_advertised_and_not_reached(guarded: Guarded) -> None:
    """The bootstrap answers; the address that the broker tells everybody to use doesn't."""
    status, checks = seen("--bootstrap-server", guarded.at["MISDIRECTED"])
    assert status == 1
    (found,) = [each for name, each in checks.items() if name.startswith("broker 1 at")]
    assert str(guarded.nowhere) in found["check"]
    assert "advertised.listeners" in found["remedy"]


def test_what_is_wrong_on_this_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A driver's Python that is none, and one with an old PySpark: each with its remedy, none with a traceback."""
    jupyter = tmp_path / "jupyter"
    jupyter.write_text("#!/bin/sh\necho 'Jupyter' >&2\nexit 1\n")
    jupyter.chmod(0o755)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", str(jupyter))
    status, checks = seen()
    assert status == 1
    assert "is no Python" in checks["Python of the driver"]["found"]
    assert checks["Python of executors and sources"]["result"] == "ok"
    jupyter.write_text(f"#!/bin/sh\nexec {sys.executable} -c \"import pyspark; pyspark.__version__ = '4.1.0'; $2\"\n")
    assert "PySpark 4.2 or newer, found 4.1.0" in seen()[1]["Python of the driver"]["found"]


def test_an_archive_of_pyspark_that_is_not_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The remedy is a line for a shell: after it Python imports what is compiled, in another time zone too."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "it's Spark"))
    file = tmp_path / "it's Spark" / "python" / "lib" / "pyspark.zip"
    assert host.archive() == []
    file.parent.mkdir(parents=True)
    file.write_bytes(b"PK")
    assert [each.result for each in host.archive()] == ["failed"]
    with zipfile.ZipFile(file, "w") as modules:
        modules.writestr("pyspark/__init__.py", "")
        modules.writestr("pyspark/errors/conditions.json", "{}")
    kept = tmp_path / "uv's cache"
    os.link(file, kept)
    size = kept.stat().st_size
    (check,) = host.archive()
    assert (check.result, "failed to connect back" in check.found) == ("warning", True)
    subprocess.run(["sh", "-c", check.remedy.partition(": ")[2]], check=True, timeout=60)
    assert [each.result for each in host.archive()] == ["ok"]
    assert kept.stat().st_size == size
    for zone in ("UTC", "Asia/Tokyo"):
        program = "import importlib.resources as r, pyspark; print(pyspark.__file__, r.files('pyspark').joinpath('errors/conditions.json').read_text())"
        env = {**os.environ, "PYTHONPATH": str(file), "TZ": zone}
        said = subprocess.run(
            [sys.executable, "-c", program], env=env, check=True, timeout=60, capture_output=True, text=True
        )
        assert said.stdout.split("pyspark.zip/")[1].split() == ["pyspark/__init__.pyc", "{}"]


def test_mistakes_on_the_command_line() -> None:
    """Exit status 2, and no value is shown."""
    said = cohort("doctor", "--option", PASSWORD)
    assert (said.returncode, PASSWORD in said.stderr) == (2, False)
