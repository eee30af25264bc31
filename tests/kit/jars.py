"""Where the jars of ``make jars`` are, and the Java that runs them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from sparkcohort.streaming.installation import jar_path

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".cache" / "jars"
# For short-lived JVMs.  Without counters for jps: all that are process 1 of a container would write the same file, and say so.
QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]


def jars(part: str) -> list[Path]:
    """The jars of one part: ``broker``, ``tools``, ``spark-kafka`` or ``spark-values``; raises FileNotFoundError when not fetched."""
    found = sorted((JARS / part).glob("*.jar"))
    if not found:
        raise FileNotFoundError(f"no jars in {JARS / part}: run `make jars`")
    return found


def class_path(*parts: str) -> str:
    """A Java class path of the jars of ``parts``, in this order."""
    return os.pathsep.join(str(jar) for part in parts for jar in jars(part))


def java() -> str:
    """The Java launcher: that of ``JAVA_HOME``, else the first on ``PATH``; raises FileNotFoundError without one."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise FileNotFoundError("no java on PATH: run `make jars`, or install a Java 17 runtime")
    return found


def reader_jar() -> list[Path]:
    """The jar of the reader in the JVM, with which tests run; none with COHORT_READER=python, which tests the other reader."""
    return [] if os.environ.get("COHORT_READER") == "python" else [jar_path()]
