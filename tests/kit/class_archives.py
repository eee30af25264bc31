"""Archives of the classes that short-lived JVMs load: Java maps them instead of reading and checking thousands anew (JEP 350).

``python -m tests.kit.class_archives`` makes those that are missing.  Without one a JVM starts as ever, at twice the CPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from tests.kit.jars import QUICK, ROOT, jars, java
from tests.kit.spark_home import spark_home

FOLDER = ROOT / ".cache" / "classes"
MAKERS = {"broker": "some_records.py", "spark": "some_queries.py"}
LIMIT_S = 300.0


def quick(what: str) -> list[str]:
    """Java's options for a short-lived JVM of ``broker`` or ``spark``, with the archive where there is one."""
    path = kept(what)
    # -Xlog: an archive that doesn't fit is left aside with a warning on standard output, which tests read.
    return [*QUICK, f"-XX:SharedArchiveFile={path}", "-Xlog:disable"] if path.exists() else list(QUICK)


def kept(what: str, suffix: str = ".jsa") -> Path:
    """Where the archive is, or what else is kept of these jars.

    Named after what Java compares before it uses one: itself, and the jars' places, sizes and times.
    """
    found = jars("broker") if what == "broker" else sorted((spark_home() / "jars").glob("*.jar"))
    parts = [os.path.realpath(java())]
    parts += [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in found]
    return FOLDER / f"{what}-{zlib.crc32(chr(10).join(parts).encode()):08x}{suffix}"


def make(what: str) -> None:
    """Run a script whose JVM writes its archive when it ends.  Raises RuntimeError with what it said where it doesn't."""
    path = kept(what)
    if path.exists():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob(f"{what}-*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, path.name)
        script = Path(__file__).parent / "archive_makers" / MAKERS[what]
        command = [sys.executable, "-P", str(script), folder, *QUICK, f"-XX:ArchiveClassesAtExit={fresh}"]
        env = {**os.environ, "SPARK_HOME": str(spark_home())}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode or not fresh.exists():
            raise RuntimeError(f"no archive of the classes of {what}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        part = path.with_suffix(".part")
        part.write_bytes(fresh.read_bytes())
        part.rename(path)


def main(parts: Sequence[str] = tuple(MAKERS)) -> None:
    """All of them."""
    for what in parts:
        make(what)


if __name__ == "__main__":
    main()
