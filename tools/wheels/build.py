"""The sdist, and from it a wheel for each target: the same bytes for the same tree, compiler and ``SOURCE_DATE_EPOCH``."""

from __future__ import annotations

import gzip
import io
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

from tools.wheels.targets import Target

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "pyspark_cohort.py")
ROOMS = ("assignors", "cli", "dashboards", "native", "runtime", "sparkcohort", "streaming")
SOURCES = Path(".cache", "sources")
JAR = Path("sparkcohort", "jars", "cohort.jar")
ZIG = [sys.executable, "-m", "ziglang", "cc"]
CACHE = ROOT / ".cache" / "zig"
BUILD_S, MUSL_S, GIT_S = 900, 300, 30
PLAIN_FILE, PLAIN_FOLDER = 0o644, 0o755


class BuildError(Exception):
    """A build went wrong; the message says how."""


def epoch() -> int:
    """The time that all files get: ``SOURCE_DATE_EPOCH``, else that of the last commit."""
    said = os.environ.get("SOURCE_DATE_EPOCH")
    if said is None:
        said = _run(["git", "log", "-1", "--format=%ct"], ROOT, {}, GIT_S).strip()
    if not said.isdigit():
        raise BuildError(f"SOURCE_DATE_EPOCH is {said!r}: set it to seconds since 1970")
    return int(said)


def make_sdist(folder: Path, time: int) -> Path:
    """The sdist of this tree, from a copy of what ships, so that nothing is left here."""
    tree = folder / "tree"
    listed = _run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *SHIPPED, *ROOMS], ROOT, {}, GIT_S
    )
    for name in filter(None, listed.split("\0")):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name, follow_symlinks=False)
    if (ROOT / SOURCES).is_dir():  # setup.py says what to do where they are not
        shutil.copytree(ROOT / SOURCES, tree / SOURCES)
    if not (ROOT / JAR).is_file():
        raise BuildError(f"there is no {JAR}, which the wheels bring: make venv makes it")
    (tree / JAR).parent.mkdir(parents=True)
    shutil.copyfile(ROOT / JAR, tree / JAR)
    made = _hook("build_sdist", tree, folder, {"SOURCE_DATE_EPOCH": str(time)})
    _plain_tar(made, time)
    return made


def unpacked(sdist: Path, folder: Path) -> Path:
    """The tree that an sdist has."""
    shutil.unpack_archive(sdist, folder)  # our own, a moment old; Python 3.11.2 knows no filter for it
    (tree,) = folder.iterdir()
    return tree


def make_wheel(target: Target, tree: Path, folder: Path, time: int) -> Path:
    """The wheel of an unpacked sdist for this target, by zig."""
    CACHE.mkdir(parents=True, exist_ok=True)
    compiler = [*ZIG, "-target", target.triple, *_includes(folder / "headers", target)]
    if target.machine == "aarch64":
        compiler.append("-mno-outline-atomics")  # they are the compiler's library, which is not linked
    linker = [*ZIG, "-target", target.triple, "-shared"]
    if target.libc == "musl":
        linker += ["-nostdlib", str(musl_symbols(target, folder))]
    environment = {
        "CC": shlex.join(compiler),
        "LDSHARED": shlex.join(linker),
        "SOURCE_DATE_EPOCH": str(time),
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
        **_caches(),
    }
    return _hook("build_wheel", tree, folder, environment, {"--build-option": [f"--plat-name={target.tag}"]})


def musl_symbols(target: Target, folder: Path) -> Path:
    """A library with the names that musl's libc has, and nothing behind them; the table comes with zig."""
    import ziglang  # noqa: PLC0415  not there where wheels are only looked at

    table = Path(ziglang.__file__).parent / "lib" / "libc" / "musl" / "libc.S"
    made = folder / target.musl
    family = "x86" if target.machine == "x86_64" else target.machine
    names = ["-DPTR64", f"-DARCH_{target.machine}", f"-DFAMILY_{family}"]
    command = [*ZIG, "-target", target.triple, "-shared", "-nostdlib", *names, f"-Wl,-soname,{made.name}"]
    _run([*command, "-o", str(made), str(table)], folder, _caches(), MUSL_S)
    return made


def _caches() -> dict[str, str]:
    return {"ZIG_GLOBAL_CACHE_DIR": str(CACHE), "ZIG_LOCAL_CACHE_DIR": str(CACHE)}


def _includes(folder: Path, target: Target) -> list[str]:
    """Debian's Python.h asks for a header in a folder named after the system: that of this one serves them all, by its stable ABI."""
    version = Path(sysconfig.get_path("include")).name
    here = Path("/usr/include", str(sysconfig.get_config_var("MULTIARCH")), version, "pyconfig.h")
    if not here.is_file():
        return []
    for libc in {"gnu", target.libc}:  # some Pythons ask for that of glibc with either libc
        there = folder / f"{target.machine}-linux-{libc}" / version
        there.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(here, there / here.name)
    return [f"-I{folder}"]


def _hook(name: str, tree: Path, folder: Path, environment: dict[str, str], said: object = None) -> Path:
    """What setuptools makes when pip or uv ask it (PEP 517)."""
    asked = f"from setuptools import build_meta; print(build_meta.{name}({str(folder)!r}, {said!r}))"
    printed = _run([sys.executable, "-c", asked], tree, environment, BUILD_S)
    return folder / printed.splitlines()[-1]


def _run(command: list[str], folder: Path, environment: dict[str, str], timeout: int) -> str:
    plain = {name: value for name, value in os.environ.items() if name not in ("CFLAGS", "CPPFLAGS", "LDFLAGS")}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**plain, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(str(error)) from None
    if done.returncode:
        raise BuildError(f"{' '.join(command[:4])} …: {done.stderr[-3000:]}")
    return done.stdout


def _plain_tar(path: Path, time: int) -> None:
    """Sorted, of nobody, at one time."""
    packed = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for entry in sorted(old.getmembers(), key=lambda each: each.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.pax_headers = time, 0, 0, "", "", {}
            entry.mode = PLAIN_FOLDER if entry.isdir() else PLAIN_FILE
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    path.write_bytes(gzip.compress(packed.getvalue(), compresslevel=9, mtime=time))
