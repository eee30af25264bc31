"""PySpark's daemon, with PySpark from the environment: for ``spark.python.daemon.module``.

Spark puts its own ``pyspark.zip`` first on the path of every Python that it starts.  Nothing in there is compiled, so each
daemon compiles PySpark again, and the start of an application's first query waits for four of them, one after the other.
Where the environment has the same PySpark installed, this takes that one; all else is ``pyspark.daemon``.
"""

from __future__ import annotations

import runpy
import sys
import zipimport
from importlib.machinery import PathFinder
from pathlib import Path

_PYSPARK, _PY4J = "pyspark.zip", "py4j-"


def without_archives(path: list[str]) -> list[str]:
    """The path to import from, less Spark's archives where what is installed is of the archive's version."""
    archive = next((entry for entry in path if Path(entry).name == _PYSPARK), None)
    remaining = [entry for entry in path if not Path(entry).name.startswith((_PYSPARK, _PY4J))]
    pyspark = PathFinder.find_spec("pyspark", remaining)
    if archive is None or pyspark is None or pyspark.origin is None or PathFinder.find_spec("py4j", remaining) is None:
        return path
    try:
        version = zipimport.zipimporter(archive).get_data("pyspark/version.py")
        is_same = Path(pyspark.origin).with_name("version.py").read_bytes() == version
    except (OSError, zipimport.ZipImportError):
        return path
    return remaining if is_same else path


def main() -> None:
    """Run PySpark's daemon: the worker's module is the argument, as for ``pyspark.daemon``."""
    sys.path[:] = without_archives(sys.path)
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
