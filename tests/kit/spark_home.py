"""Spark's installation seen through links, in one place for all runs: what a JVM loads from there can be archived.

Without Spark's archives of PySpark: the interpreter has the same one, compiled.  ``archives`` puts them back.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tests.kit.jars import ROOT

PARTS = ("bin", "jars", "sbin", "data")


def spark_home() -> Path:
    """Made when first asked for; executors' folders lie in its ``work``.  Raises FileNotFoundError without PySpark."""
    home = ROOT / ".cache" / "spark-home" / version("pyspark")
    home.mkdir(parents=True, exist_ok=True)
    # Spark would put python/lib/pyspark.zip first on every path: nothing in there is compiled, so each Python compiles it.
    (home / "python").unlink(missing_ok=True)
    for part in PARTS:
        target = _installed() / part
        if target.exists() and (home / part).resolve() != target.resolve():
            (home / part).unlink(missing_ok=True)
            with suppress(FileExistsError):  # another worker was faster
                (home / part).symlink_to(target)
    return home


def archives() -> str:
    """What Spark puts first on the path of its Pythons where its own ``python`` is: PySpark and py4j, not compiled."""
    found = sorted((_installed() / "python" / "lib").glob("*.zip"), reverse=True)
    if [file.name.partition("-")[0] for file in found] != ["pyspark.zip", "py4j"]:
        raise FileNotFoundError(f"not Spark's two archives: {found}")
    return os.pathsep.join(map(str, found))


def _installed() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("no pyspark: run `make venv`")
    return Path(spec.origin).parent
