"""Checks of this host: interpreters, versions, Java, descriptors, ports, and the memory of executors."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shlex
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from contextlib import closing
from importlib import metadata
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from typing import Any, Final

from sparkcohort.cli.diagnosis import Check, failed, not_asked, ok, warning
from sparkcohort.runtime.kafka.addresses import bare, joined

ANSWER_S: Final = 30.0
"""Time for a Python to start and answer: on a busy machine an import takes seconds."""
LEAST_FILES: Final = 4096
AGENT_MIB: Final = 86
"""An agent's memory beside its ``buffer.bytes`` (docs/operate/sizing.md: 150 MiB with 64)."""
WORKER_MIB: Final = 100
LEAST_OVERHEAD_MIB: Final = 384
_LOOK: Final = (
    "import json,sys\n"
    "try:\n"
    " import sparkcohort.streaming.source;why=''\n"
    "except BaseException as error:\n"
    " why=type(error).__name__+': '+str(error)[:200]\n"
    "from importlib.metadata import version\n"
    "def of(name):\n"
    " try: return version(name)\n"
    " except Exception: return ''\n"
    "print('COHORT '+json.dumps([sys.executable,'.'.join(map(str,sys.version_info[:3])),of('sparkcohort'),of('pyspark'),why]))\n"
)
PYTHON: Final = ".".join(map(str, sys.version_info[:2]))
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


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
        return failed(check, f"{subject} does not answer within {ANSWER_S:g} s: is it a Python?", remedy)
    except OSError as error:
        return failed(check, f"{subject} does not run: {error.strerror}", remedy)
    lines = [line for line in done.stdout.splitlines() if line.startswith("COHORT ")]
    if not lines:
        return failed(check, f"{subject} is no Python: it ended with status {done.returncode}", remedy)
    path, version, cohort, pyspark, trouble = json.loads(lines[-1].removeprefix("COHORT "))
    own, subject = metadata.version("sparkcohort"), f"{path} ({version}, {set_by})"
    if trouble:
        return failed(check, f"{subject} can't load Cohort: {trouble}", remedy)
    if version.rpartition(".")[0] != PYTHON:
        finding = f"{path} is {version}, this command's is {PYTHON}"
        return failed(check, finding, f"{remedy}; driver and executors need the same")
    if cohort != own:
        finding = f"{path} has sparkcohort {cohort}, this command's is {own}"
        return failed(check, finding, "install the same version in both")
    return ok(check, f"{subject}, sparkcohort {cohort}, pyspark {pyspark or 'of the cluster'}")


def versions() -> list[Check]:
    """PySpark and Java."""
    try:
        pyspark = metadata.version("pyspark")
        remedy = "upgrade it to 4.2 or newer, on the driver and the executors"
        recent = tuple(int(part) for part in re.findall(r"\d+", pyspark)[:2]) >= (4, 2)
        checks = [ok("PySpark", pyspark) if recent else failed("PySpark", pyspark, remedy)]
    except metadata.PackageNotFoundError:
        remedy = "pip install 'sparkcohort[spark]', unless the cluster brings its own"
        checks = [warning("PySpark", "not in this Python", remedy)]
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is not None and os.access(java, os.X_OK):
        return [*checks, ok("Java", java)]
    place = f"JAVA_HOME={home} has none" if home else "neither JAVA_HOME nor PATH has one"
    return [
        *checks,
        warning("Java", place, "install Java 17 or 21 and set JAVA_HOME, unless the driver runs elsewhere"),
    ]


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
        return [failed(check, f"{file} can't be read: {error}", "install Spark again")]
    if magic == MAGIC_NUMBER:
        return [ok(check, f"{file} is compiled for Python {PYTHON}")]
    return [
        warning(
            check,
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
        return ok("file descriptors", f"hard limit {limit}; driver and agents raise theirs to it")
    remedy = f"ulimit -Hn {LEAST_FILES} or more (limits.conf, LimitNOFILE=)"
    return warning("file descriptors", f"hard limit {files}", remedy)


def ports(options: Mapping[str, str]) -> list[Check]:
    """The ports of the group and of metrics on this host.

    The coordinator listens on all addresses: ``coordinator.host``, which agents connect to, may be that of a service or router.
    """
    address = bare(options.get("metrics.address") or "127.0.0.1")
    return [
        _port("coordinator.port", options.get("coordinator.port"), ""),
        _port("metrics.port", options.get("metrics.port"), address),
    ]


def _port(name: str, text: str | None, address: str) -> Check:
    if not text or text == "0":
        return ok(name, "left out: any free port" if name == "coordinator.port" else "left out: no metrics are served")
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        return failed(name, f"{text} is no port", f"give {name} a number from 0 to 65535")
    listener = joined(address or "*", int(text))
    try:
        family, *_, address_info = socket.getaddrinfo(address or "0.0.0.0", int(text), type=socket.SOCK_STREAM)[0]  # noqa: S104
        with closing(socket.socket(family)) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address_info)
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name with an empty label
        reason = error if isinstance(error, OSError) else OSError("not a host name")
        remedy = f"give {name} a free port of this host, or leave it out"
        if name == "metrics.port" and reason.errno not in (errno.EADDRINUSE, errno.EACCES):
            remedy = "give metrics.address 127.0.0.1, 0.0.0.0, or an address of the driver's host"
        return failed(name, f"{listener}: {reason.strerror or reason}", remedy)
    return ok(name, f"{listener} is free on this host, now")


def memory_overhead(conf: Mapping[str, str], options: Mapping[str, str]) -> Check:
    """``spark.executor.memoryOverhead`` against the memory of an agent and the Python workers (docs/operate/sizing.md)."""
    name = "memory overhead"
    try:
        buffer = int(options.get("buffer.bytes") or 64 << 20) >> 20
        cores = int(conf.get("spark.executor.cores") or 1)
        memory_mib = _mib(conf.get("spark.executor.memory") or "1g")
        factor = float(conf.get("spark.executor.memoryOverheadFactor") or 0.1)
        setting = conf.get("spark.executor.memoryOverhead")
        overhead = _mib(setting) if setting else max(LEAST_OVERHEAD_MIB, int(memory_mib * factor))
    except (ValueError, OverflowError) as error:
        return failed(name, str(error), "correct the value")
    need = AGENT_MIB + buffer + WORKER_MIB * cores
    sizes = f"{overhead} MiB{'' if setting else ' (by default)'} for an agent of {AGENT_MIB + buffer} MiB and {cores} Python workers of {WORKER_MIB} MiB each"
    if overhead < need:
        return warning(
            name,
            f"{sizes}, and Spark's own needs",
            f"--conf spark.executor.memoryOverhead={need + LEAST_OVERHEAD_MIB}m",
        )
    return ok(name, sizes)


def _mib(text: str) -> int:
    """One of Spark's sizes in MiB; a bare number of these settings is MiB."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is no size such as 768m")
    return int(float(match[1]) * {"": 1, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1 << 20}[match[2].lower()])


def spark_conf(pairs_of_options: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Spark's settings: ``spark-defaults.conf`` of this host and ``--conf``; and their source, in words."""
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if (home := os.environ.get("SPARK_HOME")) else "")
    path = Path(folder) / "spark-defaults.conf"
    if not folder or not path.is_file():
        return dict(pairs_of_options), "--conf"
    try:
        lines = path.read_text(errors="replace")[: 1 << 20].splitlines()
    except OSError as error:
        return dict(pairs_of_options), f"--conf; {path} can't be read: {error.strerror}"
    pairs = (re.split(r"[\s=]+", line.strip(), maxsplit=1) for line in lines if line.strip().startswith("spark."))
    return {**{pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}, **pairs_of_options}, str(path)


NO_EXECUTORS: Final = not_asked("executors", "not asked", "register(spark, executors=True) asks them, in the query")
