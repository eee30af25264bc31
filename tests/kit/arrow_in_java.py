"""The jar's reader of Arrow streams (``ArrowStream.java``), asked line by line, in a JVM of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import pyspark

from sparkcohort.streaming.installation import jar_path
from tests.kit.jars import ROOT, java
from tests.kit.java_program import JavaProgram

SOURCE: Final = Path(__file__).parent / "java" / "ArrowBatches.java"
JARS: Final = Path(str(pyspark.__file__)).parent / "jars"


class ArrowInJava(JavaProgram):
    """Answers "DDL<tab>FILE" with the rows of a file as JSON, or with "malformed: " and why."""

    def __init__(self, classes: Path) -> None:
        """Compiles the program into a folder, with the compiler that made the jar: it reads what only the package sees."""
        (compiler,) = (ROOT / ".cache" / "jars-compiler" / "compiler").glob("ecj-*.jar")
        self._class_path = os.pathsep.join([str(classes), str(jar_path()), *map(str, sorted(JARS.glob("*.jar")))])
        command = [java(), "-jar", str(compiler), "--release", "17", "-proc:none", "-nowarn", "-cp", self._class_path]
        subprocess.run([*command, "-d", str(classes), str(SOURCE)], check=True, timeout=120)
        self.source = Path("sparkcohort.ArrowBatches")

    def arguments(self) -> list[str]:
        """Java's: the class path is that of the compiled program."""
        opened = super().arguments()[:-2]
        return [
            *opened,
            "-Duser.timezone=UTC",
            "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
            "-cp",
            self._class_path,
        ]
