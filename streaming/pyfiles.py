"""Where the user's own modules are on this host: what ``--py-files`` and ``addPyFile`` have brought.

PySpark gives the workers of data sources the folder of shipped files but not the archives in it, and its stream runner
on the driver a folder within that one which nobody has made.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
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


def has_own_provider(kafka: Mapping[str, str]) -> bool:
    """Whether tokens are made by a function of the user's, not by one that comes with us."""
    provider = kafka.get("sasl.oauthbearer.provider", "")
    return bool(provider) and not provider.startswith("sparkcohort.")


def find_pyfiles() -> None:
    """Have this process find the user's own modules."""
    sys.path += [entry for entry in pyfile_paths() if entry not in sys.path]
