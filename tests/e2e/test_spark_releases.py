"""What Spark's own jars say of options and logs, beside what is known here: a newer Spark is noticed by what it has more."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from sparkcohort.cli.checkpoint import logs
from sparkcohort.runtime.shell.options.table import BY_KEY
from tests.kit.class_files import constants
from tests.kit.jars import jars

LOGS = "org/apache/spark/sql/execution/streaming/checkpointing"


def _jar(parts: list[Path], name: str) -> Path:
    (jar,) = (each for each in parts if each.name.startswith(f"{name}_"))
    return jar


def _versions(name: str) -> tuple[str, ...]:
    """Of a log of this PySpark."""
    jar = _jar(list((Path(pyspark.__file__).parent / "jars").glob("*.jar")), "spark-sql")
    found = {key: value for key, value in constants(jar, f"{LOGS}/{name}$").items() if key.startswith("VERSION_")}
    assert found
    return tuple(f"v{number}" for number in sorted(map(int, found.values())))


def test_versions_of_logs() -> None:
    """Those of Spark's offset log and commit log are those that are read and repaired here."""
    assert _versions("OffsetSeqLog") == logs.VERSIONS
    assert _versions("CommitLog") == logs.COMMIT_VERSIONS


def test_options_of_sparks_own_source() -> None:
    """Each is known: honoured, taken without effect, or refused with a remedy."""
    found = constants(
        _jar(jars("spark-kafka"), "spark-sql-kafka-0-10"), "org/apache/spark/sql/kafka010/KafkaSourceProvider$"
    )
    keys = {
        str(value)
        for name, value in found.items()
        # Defaults are none, nor sentences; an underscore begins what Spark's own tests use.
        if not name.startswith("DEFAULT_") and " " not in str(value) and not str(value).startswith("_")
    }
    assert len(keys) > 20
    assert keys - BY_KEY.keys() == set()


@pytest.mark.parametrize("name", ["fetchoffset.numretries", "topic"])
def test_the_reader_finds_what_is_there(name: str) -> None:
    """Constants of short and of long places in the pool, so that an empty answer isn't taken for a good one."""
    found = constants(
        _jar(jars("spark-kafka"), "spark-sql-kafka-0-10"), "org/apache/spark/sql/kafka010/KafkaSourceProvider$"
    )
    assert name in found.values()
