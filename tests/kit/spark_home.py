"""Spark's installation seen through links, in one place for all runs: what a JVM loads from there can be archived."""

from __future__ import annotations

from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tests.kit.jars import ROOT

PARTS = ("bin", "jars", "sbin", "python", "data")


def spark_home() -> Path:
    """Made when first asked for; executors' folders lie in its ``work``.  Raises FileNotFoundError without PySpark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("no pyspark: run `make venv`")
    home = ROOT / ".cache" / "spark-home" / version("pyspark")
    home.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        target = Path(spec.origin).parent / part
        if target.exists() and (home / part).resolve() != target.resolve():
            (home / part).unlink(missing_ok=True)
            with suppress(FileExistsError):  # another worker was faster
                (home / part).symlink_to(target)
    return home
