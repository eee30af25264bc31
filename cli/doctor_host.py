"""Checks of this host: interpreters, the archive of PySpark, descriptors."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import zipfile
from importlib import metadata
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from typing import Any, Final

from sparkcohort.cli.diagnosis import FAILED, NOT_ASKED, OK, WARNING, Check

ANSWER_S: Final = 30.0
"""Time for a Python to start and answer: on a busy machine an import takes seconds."""
LEAST_FILES: Final = 4096
_LOOK: Final = (
    "import json,sys\n"
    "try:\n"
    " import sparkcohort.streaming.source;why=''\n"
    " from sparkcohort.streaming.installation import check_libraries,unusable_reason\n"
    " try: check_libraries()\n"
    " except ImportError as error: why=unusable_reason(error)\n"
    "except BaseException as error:\n"
    " why=type(error).__name__+': '+str(error)[:200]\n"
    "from importlib.metadata import version\n"
    "def of(name):\n"
    " try: return version(name)\n"
    " except Exception: return ''\n"
    "print('COHORT '+json.dumps([sys.executable,'.'.join(map(str,sys.version_info[:3])),of('sparkcohort'),of('pyspark'),why]))\n"
)
PYTHON: Final = ".".join(map(str, sys.version_info[:2]))


def interpreters() -> list[Check]:
    """The Pythons that Spark would start for the driver and for executors, as far as this host tells."""
    worker = os.environ.get("PYSPARK_PYTHON") or "python3"
    driver = os.environ.get("PYSPARK_DRIVER_PYTHON") or worker
    set_by = "PYSPARK_PYTHON" if "PYSPARK_PYTHON" in os.environ else "not set: the first python3 in PATH"
    checks = [_python("Python of executors and sources", worker, set_by)]
    if driver != worker:
        checks.append(_python("Python of the driver", driver, "PYSPARK_DRIVER_PYTHON"))
    return checks


def _python(check: str, command: str, set_by: str) -> Check:
    remedy = f"export PYSPARK_PYTHON={sys.executable} (this command's, which has Cohort) before the session is made, for the driver; spark.pyspark.python alone doesn't do"
    subject = f"{command} ({set_by})"
    arguments: dict[str, Any] = {"capture_output": True, "text": True, "timeout": ANSWER_S, "stdin": subprocess.DEVNULL}
    try:
        done = subprocess.run([command, "-c", _LOOK], check=False, **arguments)
    except subprocess.TimeoutExpired:
        return Check(check, FAILED, f"{subject} does not answer within {ANSWER_S:g} s: is it a Python?", remedy)
    except OSError as error:
        return Check(check, FAILED, f"{subject} does not run: {error.strerror}", remedy)
    lines = [line for line in done.stdout.splitlines() if line.startswith("COHORT ")]
    if not lines:
        return Check(check, FAILED, f"{subject} is no Python: it ended with status {done.returncode}", remedy)
    path, version, cohort, pyspark, trouble = json.loads(lines[-1].removeprefix("COHORT "))
    own, subject = metadata.version("sparkcohort"), f"{path} ({version}, {set_by})"
    if trouble:
        return Check(check, FAILED, f"{subject} can't load Cohort: {trouble}", remedy)
    if version.rpartition(".")[0] != PYTHON:
        finding = f"{path} is {version}, this command's is {PYTHON}"
        return Check(check, FAILED, finding, f"{remedy}; driver and executors need the same")
    if cohort != own:
        finding = f"{path} has sparkcohort {cohort}, this command's is {own}"
        return Check(check, FAILED, finding, "install the same version in both")
    return Check(check, OK, f"{subject}, sparkcohort {cohort}, pyspark {pyspark or 'of the cluster'}")


def archive() -> list[Check]:
    """Whether Spark's archive of PySpark is compiled for this Python; empty if there is no archive.

    Spark puts it first on the path of each Python that it starts.  The Python of a query's source has ten seconds to start.
    """
    home, check = os.environ.get("SPARK_HOME"), "archive of PySpark"
    if not home:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            return []
        home = str(Path(spec.origin).parent)
    file = Path(home, "python", "lib", "pyspark.zip")
    if not file.is_file():
        return []
    try:
        with zipfile.ZipFile(file) as modules, modules.open("pyspark/__init__.pyc") as compiled:
            magic = compiled.read(len(MAGIC_NUMBER))
    except KeyError:
        magic = b""
    except (OSError, zipfile.BadZipFile) as error:
        return [Check(check, FAILED, f"{file} can't be read: {error}", "install Spark again")]
    if magic == MAGIC_NUMBER:
        return [Check(check, OK, f"{file} is compiled for Python {PYTHON}")]
    return [
        Check(
            check,
            WARNING,
            f"{file} is not compiled for Python {PYTHON}: each Python that Spark starts compiles it, a second of a core; on a busy host queries fail with 'Python worker failed to connect back'",
            f"while no Spark runs: {_compile_command(file)}",
        )
    ]


def _compile_command(file: Path) -> str:
    """One line of shell that compiles the archive, with Python and coreutils only."""
    python, target = shlex.quote(sys.executable), shlex.quote(str(file))
    # unchecked-hash: zipimport compares times in the process's time zone, so in another zone every module would be stale.
    # install: it replaces the file.  uv links installed files to its cache, so writing into the file would change that, too.
    return (
        f'(cd "$(mktemp -d)" && {python} -m zipfile -e {target} . && '
        f"{python} -m compileall -q -b --invalidation-mode unchecked-hash pyspark && "
        f"{python} -m zipfile -c pyspark.zip pyspark && install -m 644 pyspark.zip {target})"
    )


def descriptors() -> Check:
    """The hard limit of file descriptors, to which driver and agents raise theirs."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY or files >= LEAST_FILES:
        limit = "none" if files == resource.RLIM_INFINITY else files
        return Check("file descriptors", OK, f"hard limit {limit}; driver and agents raise theirs to it")
    remedy = f"ulimit -Hn {LEAST_FILES} or more (limits.conf, LimitNOFILE=)"
    return Check("file descriptors", WARNING, f"hard limit {files}", remedy)


NO_EXECUTORS: Final = Check(
    "executors", NOT_ASKED, "not asked", "register(spark, executors=True) asks them, in the query"
)
