"""The peers in the comparison: Java KafkaConsumers on a real broker.

All consumers of a group are threads of one warm JVM, but the one that is to be killed, which has a JVM of its own.
"""

from __future__ import annotations

import queue
import subprocess
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.kit.jars import class_path, java
from tools.bench.group.timeline import Change

SOURCE: Final = Path(__file__).with_name("Consumers.java")
START_S = 60.0
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"


class JavaError(Exception):
    """A JVM did not start, or a consumer failed."""


class Jvm:
    """One process of consumers."""

    def __init__(
        self, bootstrap: str, topic: str, session_ms: int, heartbeat_ms: int, heard: Callable[[Change], None]
    ) -> None:
        self._heard = heard
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.errors: list[str] = []
        command = ["setpriv", "--pdeathsig", "KILL", java(), "-Xmx512m", QUIET, "-cp", class_path("broker")]
        command += [str(SOURCE), bootstrap, topic, str(session_ms), str(heartbeat_ms)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._listen, daemon=True).start()
        self._wait("ready")

    def tell(self, command: str, answer: str = "") -> None:
        """Give a command; with ``answer``, wait for it."""
        if self._process.stdin is None or self._process.poll() is not None:
            raise JavaError(f"the JVM of the consumers has ended with status {self._process.poll()}")
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        if answer:
            self._wait(answer)

    def end(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _wait(self, answer: str) -> None:
        try:
            found = self._answers.get(timeout=START_S)
        except queue.Empty:
            raise JavaError(f"the JVM of the consumers did not say {answer!r} within {START_S:g} s") from None
        if found != answer:
            raise JavaError(
                f"the JVM of the consumers said {found!r} instead of {answer!r}: is its Java a JDK (javac)?"
            )

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            words = line.split()
            match words:
                case [("assigned" | "revoked" | "lost") as what, name, at, numbers]:
                    partitions = frozenset(map(int, numbers.split(",")))
                    self._heard(Change(int(at) / 1e6, name, what == "assigned", partitions))
                case ["error", *_]:
                    self.errors.append(line.strip())
                case _:
                    self._answers.put(line.strip())
        self._answers.put("nothing more")


class Consumers:
    """Members of one group, the last of ``names`` given to ``open`` being the one that can be killed."""

    def __init__(self, warm: Jvm, victim: Callable[[], Jvm], how: str) -> None:
        self._warm = warm
        self._new_victim = victim
        self._victims: dict[str, Jvm] = {}
        self._how = how
        self._group = f"peer-{uuid.uuid4().hex}"
        self._open: list[str] = []

    def open(self, names: list[str]) -> None:
        """Make these members' consumers, which don't join yet."""
        self._victims[names[-1]] = self._new_victim()
        for name in names:
            self._jvm(name).tell(f"open {name} {self._group} {self._how}", f"opened {name}")
        self._open += names

    def join(self, name: str) -> None:
        """Let it subscribe and poll."""
        self._jvm(name).tell(f"join {name}")

    def close(self, name: str) -> None:
        """KafkaConsumer.close."""
        self._open.remove(name)
        self._jvm(name).tell(f"close {name}")

    def kill(self, name: str) -> None:
        """SIGKILL of its JVM."""
        self._open.remove(name)
        self._victims.pop(name).end()

    def end(self) -> None:
        """Close what is open; the warm JVM stays."""
        for name in [*self._open]:
            self.close(name)
        for victim in self._victims.values():
            victim.end()
        if self._warm.errors:
            raise JavaError(self._warm.errors[0])

    def _jvm(self, name: str) -> Jvm:
        return self._victims.get(name, self._warm)
