"""The daemon for ``spark.python.daemon.module``: where it takes PySpark from."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from sparkcohort.python_daemon import without_archives

INSTALLED = Path(pyspark.__file__).parent
ARCHIVES = sorted(map(str, (INSTALLED / "python" / "lib").glob("*.zip")), reverse=True)


def archive(folder: Path, version: str) -> str:
    """A pyspark.zip that says so of its version."""
    made = folder / "pyspark.zip"
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("pyspark/version.py", version)
    return str(made)


def test_the_same_version_is_taken_from_the_environment(tmp_path: Path) -> None:
    """Spark's archives go, wherever they lie; what else is on the path stays in its order."""
    same = archive(tmp_path, (INSTALLED / "version.py").read_text())
    assert without_archives([same, "/spark/py4j-0.10.9.9-src.zip", "/a", *sys.path]) == ["/a", *sys.path]
    assert without_archives([*ARCHIVES, *sys.path]) == sys.path


def test_another_version_stays_sparks(tmp_path: Path) -> None:
    """The JVM's side of that protocol is in the same Spark as the archive."""
    path = [archive(tmp_path, '__version__: str = "4.2.9"\n'), "/spark/py4j-0.10.9.9-src.zip", *sys.path]
    assert without_archives(path) == path


@pytest.mark.parametrize("path", [[*ARCHIVES, "/nothing/there"], ["/not/there/pyspark.zip", *sys.path], sys.path])
def test_nothing_to_choose_from(path: list[str]) -> None:
    """Nothing installed, no archive that can be read, no archive at all: as Spark has it."""
    assert without_archives(path) == path


@pytest.mark.parametrize(("module", "compiled"), [("pyspark.daemon", False), ("sparkcohort.python_daemon", True)])
def test_the_daemon_that_spark_starts(module: str, compiled: bool) -> None:
    """As Spark starts it, archives first; it ends by itself when Spark is gone."""
    ended = subprocess.run(
        [sys.executable, "-P", "-v", "-m", module, "pyspark.worker"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(ARCHIVES)},
        timeout=60,
        check=False,  # it is 1 in either case
    )
    assert len(ended.stdout) == 4, "the port, for the JVM"
    imported = ended.stderr.decode(errors="replace")
    assert ("import 'pyspark.util' # <zipimporter" not in imported) == compiled
    assert (f"{INSTALLED}/__pycache__/util." in imported) == compiled
