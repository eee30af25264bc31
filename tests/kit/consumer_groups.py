"""What Kafka's own tool says of a group: ``kafka-consumer-groups --describe``, parsed.

Usage::

    rows = describe(broker.bootstrap, "billing")      # one Row per partition
    assert all(row.lag == 0 for row in rows)
    with one_jvm() as tool:                           # for many commands: each alone is the start of a JVM
        printed = tool(broker.bootstrap, "--describe", "--group", "billing")
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.kit.class_archives import quick
from tests.kit.jars import class_path, jars, java
from tests.kit.spark_home import spark_home

OPTIONS = ("-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@dataclass(frozen=True)
class Row:
    """One line of the tool's table; None where it prints a dash."""

    group: str
    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


def run(bootstrap: str, *arguments: str, program: str = COMMAND) -> str:
    """Run the tool, or another of Kafka's, and return what it prints; raises RuntimeError when it fails or reports an error."""
    command = [java(), *quick("broker"), *OPTIONS, "-cp", class_path("broker", "tools"), program]
    command += ["--bootstrap-server", bootstrap, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0 or done.stdout.lstrip().startswith("Error"):
        raise RuntimeError(f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def one_jvm() -> Iterator[Callable[..., str]]:
    """``run``, in one JVM for all commands, which it can't outlive: the tool's own program, called with its words."""
    # The jars of the archive of classes first, in its order; Spark has the one through which we call.
    (first, *more), (py4j,) = jars("broker"), (spark_home() / "jars").glob("py4j-*.jar")
    behind = [str(jar) for jar in (*more, *jars("tools"), py4j)]
    port = launch_gateway(
        jarpath=str(first),
        classpath=":".join(behind),
        javaopts=[*quick("broker"), *OPTIONS],
        java_path=java(),
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_field=True))
    try:
        yield lambda bootstrap, *arguments: _called(gateway, ["--bootstrap-server", bootstrap, *arguments])
    finally:
        gateway.shutdown()


def _called(gateway: JavaGateway, arguments: list[str]) -> str:
    java_lang, java_io, tool = gateway.jvm.java.lang, gateway.jvm.java.io, gateway.jvm
    printed = java_io.ByteArrayOutputStream()
    java_lang.System.setOut(java_io.PrintStream(printed))
    words = gateway.new_array(java_lang.String, len(arguments))
    for number, argument in enumerate(arguments):
        words[number] = argument
    for name in COMMAND.split("."):
        tool = getattr(tool, name)
    tool.main(words)
    text: str = printed.toString()
    if text.lstrip().startswith("Error"):
        raise RuntimeError(f"{' '.join(arguments)}: {text}")
    return text


def describe(bootstrap: str, group: str) -> list[Row]:
    """``--describe --group``, sorted by topic and partition; empty when the group has neither offsets nor members."""
    return parse(run(bootstrap, "--describe", "--group", group))


def parse(printed: str) -> list[Row]:
    """The rows of the tool's table, whatever the order of its columns."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    heads = [index for index, words in enumerate(lines) if words[0] == "GROUP"]
    if not heads:
        return []
    names = lines[heads[0]]
    rows = [_row(dict(zip(names, words, strict=True))) for words in lines[heads[0] + 1 :] if len(words) == len(names)]
    return sorted(rows, key=lambda row: (row.topic, row.partition))


def _row(cells: dict[str, str]) -> Row:
    def text(name: str) -> str | None:
        return None if cells.get(name, "-") == "-" else cells[name]

    def number(name: str) -> int | None:
        found = text(name)
        return None if found is None else int(found)

    return Row(
        group=cells["GROUP"],
        topic=cells["TOPIC"],
        partition=int(cells["PARTITION"]),
        current_offset=number("CURRENT-OFFSET"),
        log_end_offset=number("LOG-END-OFFSET"),
        lag=number("LAG"),
        consumer_id=text("CONSUMER-ID"),
        host=text("HOST"),
        client_id=text("CLIENT-ID"),
    )
