"""The user's own modules on this host, from ``--py-files`` and ``addPyFile``.

PySpark puts the folder of shipped files on the path of data source workers, but not the archives in it.  The stream runner
on the driver gets a folder within that one which does not exist.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkFiles

from sparkcohort.runtime.shell.rpc.executor import module_paths


def pyfile_paths() -> list[str]:
    """Entries for sys.path: the folder of shipped files and each archive in it; none outside Spark's processes."""
    folder = SparkFiles._root_directory
    if not folder or not SparkFiles._is_running_on_worker:
        return []
    return module_paths(Path(folder)) or module_paths(Path(folder).parent)


def has_own_provider(kafka: Mapping[str, str]) -> bool:
    """Whether the token provider is the user's function and not one of sparkcohort."""
    provider = kafka.get("sasl.oauthbearer.provider", "")
    return bool(provider) and not provider.startswith("sparkcohort.")


def find_pyfiles() -> None:
    """Put the user's own modules on this process's path."""
    sys.path += [entry for entry in pyfile_paths() if entry not in sys.path]
