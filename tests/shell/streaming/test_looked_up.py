"""PySpark looks for data sources in all modules that are called ``pyspark_*``: what one of them does there befalls all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OTHER = """
from pyspark.sql.datasource import DataSource

class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return "other"
"""
LOOK_UP = """
import io, struct, sys

{wrong}

from pyspark.sql.worker.lookup_data_sources import _main

found = io.BytesIO()
_main(io.BytesIO(), found)
found.seek(0)

def word():
    return found.read(struct.unpack("!i", found.read(4))[0])

from pyspark.serializers import CloudPickleSerializer

count = struct.unpack("!i", found.read(4))[0]
sources = {{word().decode(): CloudPickleSerializer().loads(word()) for _ in range(count)}}
print(*sorted(sources))
try:
    source = sources["cohort"]({options})
    if {starts}:  # what finds no fault with the options opens the query: no broker is asked before all is loaded
        source.streamReader(source.schema()).initialOffset()
    print(source)
except Exception as error:
    print(error)
"""
OLD = """
import pyspark, pyspark.sql.datasource
import pyspark.sql.streaming.datasource as streaming
pyspark.__version__ = "4.1.0"
del streaming.SupportsTriggerAvailableNow
"""
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g"}
BROKEN = {
    "PySpark 4.1": (OLD, "needs PySpark 4.2 or newer, found 4.1.0"),
    "no Kafka client": ("sys.modules['confluent_kafka'] = None", "No module named 'confluent_kafka'"),
}


def looked_up(wrong: str, directory: Path, *, starts: bool = False) -> tuple[list[str], str]:
    """The names that PySpark's own look-up finds where ``wrong`` has been done, and what using ours says.

    ``starts``: used by a query that starts, not only by ``load()``.
    """
    (directory / "pyspark_zother.py").write_text(OTHER)
    (directory / "pyspark_another.py").write_text(OTHER.replace('"other"', '"another"'))
    command = [
        sys.executable,
        "-P",
        "-c",
        LOOK_UP.format(wrong=wrong, starts=starts, options=OPTIONS if starts else {}),
    ]
    env = os.environ | {"PYTHONPATH": str(directory)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    names, said = done.stdout.rstrip("\n").split("\n")
    return names.split(), said


def test_ours_is_found_beside_others(tmp_path: Path) -> None:
    """Being installed is all it takes."""
    names, said = looked_up("", tmp_path)
    assert names == ["another", "cohort", "other"]
    assert "CohortSource" in said


@pytest.mark.parametrize("what", BROKEN)
def test_others_are_found_where_ours_cannot_be_used(what: str, tmp_path: Path) -> None:
    """With an older PySpark or a broken installation ours says so to whoever uses it, in one line, and to nobody else."""
    wrong, reason = BROKEN[what]
    names, said = looked_up(wrong, tmp_path)
    assert names == ["another", "cohort", "other"]
    assert said.startswith("format('cohort') ")
    assert sys.executable in said
    assert reason in said
    assert ("upgrade pyspark" in said) == (what == "PySpark 4.1")


def test_what_only_a_query_loads_is_told_of_when_it_starts(tmp_path: Path) -> None:
    """What is there, and can't be imported, is found by the first process that imports it; it is the same line."""
    names, said = looked_up("import pyarrow; del pyarrow.RecordBatch", tmp_path, starts=True)
    assert names == ["another", "cohort", "other"]
    assert said.startswith(f"format('cohort') can't be loaded in {sys.executable} (")
    assert "RecordBatch" in said
    assert "install it again there" in said
