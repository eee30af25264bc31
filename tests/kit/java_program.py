"""A Java source file that answers questions, a line each, in a JVM of its own."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from tests.kit.jars import QUICK, java

OPENED: Final = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch", "java.lang")]
ANSWER_S: Final = 60.0


class JavaProgram:
    """One JVM for any number of questions; a context manager.  Needs a Java with its compiler."""

    source: Path

    def arguments(self) -> list[str]:
        """Java's, with the class path: PySpark's jars."""
        return [*QUICK, *OPENED, "-cp", f"{Path(str(pyspark.__file__)).parent / 'jars'}{os.sep}*"]

    def __enter__(self) -> Self:
        """Start it; the first question waits until it is up."""
        command = ["setpriv", "--pdeathsig", "KILL", java(), *self.arguments(), str(self.source)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def ask(self, question: str) -> str:
        """The answer to a line; raises RuntimeError without one."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(question + "\n")
        process.stdin.flush()
        waiting = select.poll()  # select() takes no descriptor above 1,023
        waiting.register(process.stdout, select.POLLIN)
        answer = process.stdout.readline() if waiting.poll(1000 * ANSWER_S) else ""
        if not answer:
            raise RuntimeError(f"no answer to {question} (status {process.poll()}): is its Java a JDK (javac)?")
        return answer.rstrip("\n")
