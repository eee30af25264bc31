"""Whether this Python has what ``format("cohort")`` needs.  Imports next to nothing."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sparkcohort.runtime.errors import CohortError

OLDEST_PYSPARK: Final = (4, 2)
LIBRARIES: Final = ("confluent_kafka", "cryptography", "msgspec", "numpy", "prometheus_client", "pyarrow")


def check_libraries() -> None:
    """Raises ImportError for a PySpark that is too old, and for a library that is missing."""
    if version := _old_pyspark_version():
        raise ImportError(version)
    for name in LIBRARIES:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def unusable_reason(error: Exception) -> str:
    """Why the source can't be used in this Python, and what to do."""
    if version := _old_pyspark_version():
        return f"format('cohort') needs PySpark 4.2 or newer, found {version} in {sys.executable}: upgrade pyspark"
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return (
        f"format('cohort') can't be loaded in {sys.executable} ({reason}): install it again there, with all that it "
        "needs: python -m pip install --force-reinstall sparkcohort"
    )


def jar_path() -> Path:
    """Where this installation's jar is.  Raises CohortError where it has none."""
    path = Path(__file__).parents[1] / "jars" / "cohort.jar"
    if not path.is_file():
        raise CohortError(f"this installation of Cohort has no jar ({path}): install it again as a wheel, with pip")
    return path


def _old_pyspark_version() -> str:
    """The version of a PySpark that is too old for the source, else ""."""
    import pyspark  # noqa: PLC0415  PySpark has imported it before it looks for sources

    version = str(getattr(pyspark, "__version__", "of unknown version"))
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return version if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST_PYSPARK else ""
