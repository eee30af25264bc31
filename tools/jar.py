"""Compiles jvm/src against PySpark's own jars into sparkcohort/jars/cohort.jar: the same bytes for the same source.

tools/jar.py COMPILER      COMPILER: the jar of Eclipse's compiler (tools/bootstrap.sh jar fetches it)
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "jvm" / "src"
JAR = ROOT / "sparkcohort" / "jars" / "cohort.jar"
SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
WARNINGS = "+unused,unusedParam,fieldHiding,nullDereference,-serial"
OPTIONS = ["--release", "17", "-proc:none", "-g:lines,source", f"-warn:{WARNINGS}", "-failOnWarning"]
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the first time that a zip file can say


def compile_sources(compiler: Path, folder: Path) -> None:
    """All classes, in ``folder``; warnings are errors.  Raises SystemExit."""
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise SystemExit("tools/jar.py: needs PySpark, whose jars it compiles against")
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
    jars = os.pathsep.join(map(str, sorted((Path(pyspark.origin).parent / "jars").glob("*.jar"))))
    command = [java, "-jar", compiler, *OPTIONS, "-cp", jars, "-d", folder, SOURCES]
    if subprocess.run(command, check=False, timeout=300).returncode:
        raise SystemExit("tools/jar.py: jvm/src does not compile (see above)")


def main() -> None:
    """Compile, and pack in one order with one time."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    entries = {
        "META-INF/MANIFEST.MF": f"Manifest-Version: 1.0\nImplementation-Version: {version}\n".encode(),
        SERVICE: b"sparkcohort.CohortProvider\n",
        "META-INF/LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    with tempfile.TemporaryDirectory() as folder:
        compile_sources(Path(sys.argv[1]), Path(folder))
        entries |= {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*.class"))}
    JAR.parent.mkdir(exist_ok=True)
    part = JAR.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, content in entries.items():
            jar.writestr(zipfile.ZipInfo(name, LONG_AGO), content, zipfile.ZIP_DEFLATED)
    part.replace(JAR)


if __name__ == "__main__":
    main()
