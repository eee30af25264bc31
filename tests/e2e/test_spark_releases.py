"""What Spark's own jars say of options and logs, beside what is known here: a newer Spark is noticed by what it has more."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pyspark

from sparkcohort.cli.checkpoint import logs
from sparkcohort.runtime.shell.options.table import BY_KEY
from tests.kit.jars import jars, java

LOGS = "org.apache.spark.sql.execution.streaming.checkpointing"
PUT = re.compile(r"(?:ldc\w* .*// String (.*)|iconst_(\d))\n.* put(?:static|field) .*// Field ([\w$]+):")


def _jar(parts: list[Path], name: str) -> Path:
    (jar,) = (each for each in parts if each.name.startswith(f"{name}_"))
    return jar


def _constants(jar: Path, name: str) -> dict[str, str]:
    """Strings and small numbers that a class puts into its fields when it is loaded, by the fields' names."""
    command = [str(Path(java()).with_name("javap")), "-p", "-c", "-cp", str(jar), name]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return {field: text or digit for text, digit, field in PUT.findall(shown)}


def _versions(name: str) -> tuple[str, ...]:
    """Of a log of this PySpark."""
    jar = _jar(list((Path(pyspark.__file__).parent / "jars").glob("*.jar")), "spark-sql")
    found = {key: value for key, value in _constants(jar, f"{LOGS}.{name}$").items() if key.startswith("VERSION_")}
    assert found
    return tuple(f"v{number}" for number in sorted(map(int, found.values())))


def test_versions_of_logs() -> None:
    """Those of Spark's offset log and commit log are those that are read and repaired here."""
    assert _versions("OffsetSeqLog") == logs.VERSIONS
    assert _versions("CommitLog") == logs.COMMIT_VERSIONS


def test_options_of_sparks_own_source() -> None:
    """Each is known: honoured, taken without effect, or refused with a remedy."""
    jar = _jar(jars("spark-kafka"), "spark-sql-kafka-0-10")
    found = _constants(jar, "org.apache.spark.sql.kafka010.KafkaSourceProvider$")
    keys = {
        value
        for name, value in found.items()
        # Defaults are none, nor sentences; an underscore begins what Spark's own tests use.
        if not name.startswith("DEFAULT_") and " " not in value and not value.startswith("_")
    }
    assert len(keys) > 20
    assert keys - BY_KEY.keys() == set()
