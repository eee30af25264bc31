"""Where the user's own modules are on this host: what ``--py-files`` and ``addPyFile`` have brought.

PySpark gives the workers of data sources the folder of shipped files but not the archives in it.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import SparkFiles

_ARCHIVES = {".zip", ".egg", ".jar"}


def shipped() -> list[str]:
    """Entries for sys.path: the folder of shipped files and each archive in it; none outside Spark's processes."""
    folder = SparkFiles._root_directory
    if not folder or not SparkFiles._is_running_on_worker:
        return []
    root = Path(folder)
    return [str(root), *sorted(str(path) for path in root.iterdir() if path.suffix in _ARCHIVES)]
