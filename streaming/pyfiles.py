"""Where the user's own modules are on this host: what ``--py-files`` and ``addPyFile`` have brought.

PySpark gives the workers of data sources the folder of shipped files but not the archives in it, and its stream runner
on the driver a folder within that one which nobody has made.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import SparkFiles

_ARCHIVES = {".zip", ".egg", ".jar"}


def pyfile_paths() -> list[str]:
    """Entries for sys.path: the folder of shipped files and each archive in it; none outside Spark's processes."""
    folder = SparkFiles._root_directory
    if not folder or not SparkFiles._is_running_on_worker:
        return []
    root = next((path for path in (Path(folder), Path(folder).parent) if path.is_dir()), None)
    if root is None:
        return []
    return [str(root), *sorted(str(path) for path in root.iterdir() if path.suffix in _ARCHIVES)]
