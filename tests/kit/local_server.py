"""A process that serves prefetched ranges on a local socket, to be stopped or killed by a test.

    python -m tests.kit.local_server NAME TOKEN BOOTSTRAP TOPIC PARTITIONS

Prints "ready" when it serves and has records of every partition, and "served TOPIC PARTITION START END" for each acknowledged range.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sparkcohort.runtime.protocol.partitions import Range, TopicPartition
from sparkcohort.runtime.shell.agent.prefetch import Prefetcher
from sparkcohort.runtime.shell.agent.task_server import TaskServer
from tests.kit.buffered import buffered
from tests.kit.waiting import wait_until


def say(line: str) -> None:
    """Print a line now."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(name: str, token: str, bootstrap: str, topic: str, partitions: str) -> None:
    """Serve until the process is ended."""
    prefetcher = Prefetcher({"bootstrap.servers": bootstrap})
    prefetcher.assign({TopicPartition(topic, number): 0 for number in range(int(partitions))})

    def served(ranges: Sequence[Range]) -> None:
        for wanted in ranges:
            say(f"served {wanted.topic} {wanted.partition} {wanted.start} {wanted.end}")

    TaskServer(name, token, prefetcher, served, fail=lambda _: os._exit(1)).start()
    wait_until(lambda: all(stats.position for stats in buffered(prefetcher).values()), 30, "records")
    say("ready")
    threading.Event().wait()


@contextmanager
def serving(name: str, token: str, bootstrap: str, topic: str, partitions: int) -> Iterator[subprocess.Popen[str]]:
    """The server as a child process, killed at the end (also when it is stopped)."""
    command = [sys.executable, "-P", "-m", "tests.kit.local_server", name, token, bootstrap, topic, str(partitions)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
