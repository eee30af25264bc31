"""What each of Spark's Python processes imports of ours: a query's start waits for all of them, one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KAFKA = ("confluent_kafka", "sparkcohort.runtime.shell.kafka.clients", "sparkcohort.native._native")
RPC = (
    "pyarrow._flight",
    "sparkcohort.runtime.shell.rpc.flight",
    "cryptography",
)
DRIVERS = ("sparkcohort.runtime.shell.driver.session", "sparkcohort.runtime.shell.coordinator.coordinator")
OBSERVERS = ("prometheus_client", "sparkcohort.runtime.shell.driver.metrics", "click")
AGENTS = (
    "sparkcohort.runtime.shell.agent.agent",
    "sparkcohort.runtime.shell.agent.buffers",
    "sparkcohort.runtime.group.member_machine",
    "sparkcohort.streaming.agent_start",
)
TASKS = ("sparkcohort.streaming.task", "sparkcohort.runtime.shell.agent.task_client", "sparkcohort.assignors")
PARSING = ("sparkcohort.runtime.shell.options.parse", "sparkcohort.runtime.shell.options.kafka_settings")
READER = ("sparkcohort.streaming.reader", "sparkcohort.streaming.planner")
ARROW = ("pyarrow", "numpy", "msgspec")

HEAD = """
import io, json, struct, sys
from pyspark.serializers import CloudPickleSerializer, write_int, write_with_length
pickling = CloudPickleSerializer()
def text(value, out):
    write_with_length(value.encode(), out)
def word(source):
    return source.read(struct.unpack("!i", source.read(4))[0])
def spoken(module, command):
    import importlib
    command.seek(0)
    answer = io.BytesIO()
    importlib.import_module("pyspark.sql.worker." + module)._main(command, answer)
    answer.seek(0)
    return answer
OPTIONS = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g"}
"""
LOOK_UP = """
answer = spoken("lookup_data_sources", io.BytesIO())
assert b"CohortSource" in answer.read()
"""
CREATE = """
import pyspark_cohort
command = io.BytesIO()
pickling._write_with_length(pyspark_cohort.DefaultSource, command)
text("cohort", command)
command.write(b"\\0")
write_int(len(OPTIONS), command)
for pair in OPTIONS.items():
    for each in pair:
        text(each, command)
answer = spoken("create_data_source", command)
open(sys.argv[1], "wb").write(word(answer))
"""
PLAN = """
command, source = io.BytesIO(), open(sys.argv[1], "rb").read()
command.write(struct.pack("!i", len(source)) + source)
from pyspark.sql.types import BinaryType, StructType
text(StructType().add("value", BinaryType()).json(), command)
schema = StructType.fromJson(json.loads('''SCHEMA'''))
text(schema.json(), command)
write_int(1000, command)
command.write(b"\\0\\1\\0")  # filters are pushed; streaming; bytes as bytearrays
open(sys.argv[2], "wb").write(word(spoken("plan_data_source_read", command)))
"""
RUNNER = """
import pyspark.sql.streaming.python_streaming_source_runner
from pyspark.sql.datasource_internal import _streamReader
source = pickling.loads(open(sys.argv[1], "rb").read())
_streamReader(source, source.schema())
"""
OPENED = (
    RUNNER
    + """
from sparkcohort.runtime.shell.driver.session import Session
"""
)
ROWS = """
import pyspark.worker
read, _ = pickling.loads(open(sys.argv[2], "rb").read())
import sparkcohort.streaming.task
"""

PROCESSES = {
    "looks for sources": (LOOK_UP, ARROW + READER + PARSING + TASKS + KAFKA + RPC + DRIVERS + OBSERVERS),
    "makes the source": (CREATE, READER + TASKS + KAFKA + RPC + DRIVERS + OBSERVERS + ("numpy", "pyarrow")),
    "runs the stream, not yet asked": (RUNNER, TASKS + KAFKA + RPC + DRIVERS + OBSERVERS + PARSING),
    "runs the stream": (
        OPENED,
        (*OBSERVERS, "cryptography", "sparkcohort.streaming.task", "sparkcohort.cli.simulate"),
    ),
    "plans a read": (PLAN, TASKS + KAFKA + RPC + DRIVERS + OBSERVERS + PARSING),
    "reads from an agent": (
        ROWS,
        READER + PARSING + KAFKA + RPC + DRIVERS + OBSERVERS + AGENTS + ("sparkcohort.assignors",),
    ),
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, frozenset[str]]:
    """The modules of each process at its end; what one hands to the next goes by files."""
    from sparkcohort.streaming.source import CohortSource

    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "group.id": "g"}
    schema = CohortSource(options).schema().json()
    files = [str(tmp_path_factory.mktemp("handed") / name) for name in ("source", "read")]
    found = {}
    order = ("looks for sources", "makes the source", "plans a read")
    for name in (*order, *(each for each in PROCESSES if each not in order)):
        code = HEAD + PROCESSES[name][0].replace("SCHEMA", schema) + "\nprint(*sys.modules)\n"
        command = [sys.executable, "-P", "-c", code, *files]
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=110, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        found[name] = frozenset(done.stdout.rsplit("\n", 2)[-2].split())
    assert Path(files[1]).stat().st_size
    return found


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_imports_nothing_that_only_others_need(process: str, imported: dict[str, frozenset[str]]) -> None:
    """By the entries that Spark itself calls, in a process of its own each."""
    assert "sparkcohort.streaming.source" in imported[process]
    assert sorted(imported[process] & set(PROCESSES[process][1])) == []
