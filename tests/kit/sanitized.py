"""The native part as Python loads it, built with sanitizers, in a Python of their own.

    run(build(folder), "-m", "tests.kit.sanitized")                         # all corpora, once
    feed(target, 60, 1)                                                     # one target, built and all: what ``make fuzz`` does

What an input reaches of the C is traced (``probe.c``): what reaches new code is kept, and is fed again with every allocation
failing once.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

import sparkcohort
from sparkcohort.native import _native
from tests.kit import (
    avro_fuzz,
    batches_fuzz,
    encoder_fuzz,
    json_fuzz,
    kafka_targets,
    protobuf_fuzz,
    run_targets,
    targets,
)
from tests.kit.targets import Target, escaped, replay

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "native"
KEPT: Final = ROOT / ".cache" / "sanitized"
IN_C: Final = (
    *(each.TARGET for each in (avro_fuzz, batches_fuzz, encoder_fuzz, json_fuzz, protobuf_fuzz)),
    kafka_targets.BY_CODECS,
)
"""Readers whose work is done in C."""
READERS: Final = {target.name: target for target in (*IN_C, *kafka_targets.TARGETS, *run_targets.TARGETS)}
LAST: Final = "COHORT_TESTS_LAST_INPUT"
"""The file that has the input at hand, with its length before it: whoever dies by a sanitizer tells nothing in Python."""
MOST_ALLOCATIONS: Final = 1_000

SANITIZED: Final = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
PYTHON: Final = ["-shared", "-fPIC", "-DPy_LIMITED_API=0x030B0000", f"-I{sysconfig.get_path('include')}"]
FLAGS: Final = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{SOURCES}"]
TRACED: Final = ["-fsanitize-coverage=trace-pc", *(f"-Wl,--wrap={name}" for name in ("malloc", "calloc", "realloc"))]


def build(folder: Path) -> Path:
    """A folder in front of the installed packages, with the same package but for its native part."""
    package = folder / "sparkcohort"
    (package / "native").mkdir(parents=True)
    installed = Path(str(sparkcohort.__file__)).parent
    for each in [*installed.iterdir(), *(installed / "native").iterdir()]:
        if each.name != "native" and each.suffix != ".so":
            (package / each.relative_to(installed)).symlink_to(each)
    parser = max((ROOT / ".cache" / "sources").glob("yyjson-*/")) / "yyjson.c"  # of which the wheel was built
    probe = Path(__file__).with_name("probe.c")
    made, sources = package / "native" / "_native.abi3.so", sorted(map(str, SOURCES.rglob("*.c")))
    # Objects by their kind, though their names have none; neither of them is traced.
    objects = [f"-I{parser.parent}", "-x", "none", *map(str, (_compiled(parser, *SANITIZED), _compiled(probe)))]
    command = ["cc", *FLAGS, *PYTHON, *SANITIZED, *TRACED, "-o", str(made), *sources, *objects, "-lm"]
    subprocess.run(command, check=True, timeout=300)
    return folder


def _compiled(source: Path, *more: str) -> Path:
    """The object of a source, kept: a large one takes a minute, and never changes."""
    flags = ["-std=c11", "-fPIC", *more]
    made = KEPT / hashlib.sha256(b" ".join([*map(str.encode, flags), source.read_bytes()])).hexdigest()
    if not made.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            written = Path(folder, "made.o")
            subprocess.run(["cc", *flags, "-c", "-o", written, source], check=True, timeout=300)
            written.replace(made)
    return made


def runtime() -> str:
    """The library that has to be loaded first."""
    return subprocess.run(
        ["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


def run(folder: Path, *program: str, timeout_s: float = 500) -> str:
    """What a Python with the native part of this folder prints; AssertionError with its end, and its input, where it fails."""
    last = folder / "last-input"
    environment = {
        **os.environ,
        LAST: str(last),
        "LD_PRELOAD": runtime(),
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
        "PYTHONMALLOC": "malloc",
        # Leaks are Python's own.  What is given back is kept for a while, but not so much that inputs seem to take it.
        "ASAN_OPTIONS": "detect_leaks=0:quarantine_size_mb=8",
    }
    done = subprocess.run(
        [sys.executable, "-P", *program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        kept = last.read_bytes() if last.exists() else bytes(4)
        data = kept[4 : 4 + int.from_bytes(kept[:4])]
        raise AssertionError(f"{done.stdout[-2000:]}{done.stderr[-5000:]}\ninput: {escaped(data)}")
    return done.stdout


def feed(target: Target, seconds: int, seed: int) -> str:
    """As ``targets.feed``, in a Python whose native part is built with sanitizers; what reaches new code goes to the corpus."""
    with tempfile.TemporaryDirectory() as folder:
        program = ("-m", "tests.kit.sanitized", target.name, str(seconds), str(seed))
        words, *fresh = json.loads(run(build(Path(folder)), *program, timeout_s=seconds + 600))
    with target.corpus.open("a") as corpus:
        corpus.writelines(f"{line}\n" for line in fresh)
    return f"{words}, {len(fresh)} kept"


class Traced:
    """Tries inputs in that Python; ``fresh`` are those that have reached new code."""

    def __init__(self) -> None:
        self.fresh: list[bytes] = []
        self._native = ctypes.CDLL(str(_native.__file__))
        self._last = os.open(os.environ[LAST], os.O_WRONLY | os.O_CREAT, 0o600)

    def attempt(self, target: Target, data: bytes) -> bool:
        """One input, which is in the file before; where it is fresh, which is returned, with every allocation failing once."""
        os.pwrite(self._last, len(data).to_bytes(4) + data, 0)
        self._native.probe_fresh()
        targets.attempt(target, data)
        if not self._native.probe_fresh():
            return False
        self.fresh.append(data)
        for count in range(MOST_ALLOCATIONS):
            self._native.probe_shortage(count)
            with suppress(MemoryError):
                target.check(data)
            if not self._native.probe_failed():
                break  # and what the others have left behind was found as it was
        self._native.probe_shortage(-1)
        return True


def feed_here(target: Target, seconds: float, seed: int) -> tuple[str, list[bytes]]:
    """Feed it in that Python: in words what came of it, and what is for the corpus."""
    traced = Traced()
    replay(target, traced.attempt)
    traced.fresh.clear()
    return targets.feed(target, seconds, seed, traced.attempt), traced.fresh


def main(name: str = "", seconds: str = "1", seed: str = "1") -> None:
    """One of the readers for so long; or all of them with their corpora, those in C with what is like it."""
    if name:
        words, fresh = feed_here(READERS[name], float(seconds), int(seed))
        sys.stdout.write(json.dumps([words, *map(escaped, fresh)]))
        return
    for target in READERS.values():
        words = feed_here(target, float(seconds), int(seed))[0] if target in IN_C else f"{replay(target)} inputs"
        sys.stdout.write(f"{target.name}: {words}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
