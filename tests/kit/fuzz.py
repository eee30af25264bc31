"""Decoders built with sanitizers, and what is fed to them (``fuzz.h``); ``make fuzz`` runs this.

    python -m tests.kit.fuzz SECONDS [SEED] [DECODER ...]

feeds each decoder for so long and adds to its corpus (``json_corpus.txt`` and so on) what reaches new code.  Tests
read the corpora, with every allocation failing once.  A decoder's own module says what it reads into.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
NATIVE: Final = HERE.parents[1] / "native"
KEPT: Final = HERE.parents[1] / ".cache" / "sanitized"
FLAGS: Final = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{NATIVE}"]
SANITIZED: Final = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
TRACED: Final = "-fsanitize-coverage=trace-pc"
SHORT: Final = [f"-Wl,--wrap={name}" for name in ("malloc", "calloc", "realloc")]
DECODERS: Final = ("avro", "json", "protobuf")


@dataclass(frozen=True)
class Fuzzed:
    """A decoder: its harness, our sources, and others' sources, which are sanitized but not traced."""

    name: str
    sources: tuple[str, ...]
    plans: Callable[[], bytes]
    seeds: Callable[[], list[str]]
    least: Callable[[], list[str]]  # of the seeds, those that stay whatever reaches the same code
    others: Callable[[], tuple[Path, ...]] = tuple

    @property
    def corpus(self) -> Path:
        """One input a line, in hex: the number of a plan, then a record."""
        return HERE / f"{self.name}_corpus.txt"

    def inputs(self) -> list[bytes]:
        """The corpus."""
        return [bytes.fromhex(line) for line in self.corpus.read_text().split()]

    def build(self, folder: Path) -> list[str]:
        """The program, and the plans that it reads: the beginning of its command."""
        program, written = folder / f"{self.name}_fuzz", folder / "plans"
        flags = [*FLAGS, *(f"-I{source.parent}" for source in self.others())]
        objects = [str(sanitized(source)) for source in self.others()]
        sources = [HERE / f"{self.name}_fuzz.c", *(NATIVE / source for source in self.sources)]
        command = ["cc", *flags, *SANITIZED, TRACED, *SHORT, "-o", str(program), *map(str, sources), *objects, "-lm"]
        subprocess.run(command, check=True, timeout=300)
        written.write_bytes(self.plans())
        return [str(program), str(written)]

    def run(self, command: list[str], rounds: int, seconds: int, seed: int, timeout: float) -> list[str]:
        """The inputs that reach all the code which was reached, in hex; an error when a sanitizer has found something."""
        command = [*command, str(self.corpus), str(rounds), str(seconds), str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode:
            raise AssertionError(done.stderr[-20_000:])
        sys.stderr.write(f"{self.name}: {done.stderr}")
        return done.stdout.split()

    def grow(self, seconds: int, seed: int) -> None:
        """Make the corpus better."""
        self.corpus.touch()
        self.corpus.write_text("\n".join(sorted({*self.seeds(), *self.corpus.read_text().split()})) + "\n")
        with tempfile.TemporaryDirectory() as folder:
            found = {*self.least(), *self.run(self.build(Path(folder)), 0, seconds, seed, seconds + 600)}
        self.corpus.write_text("\n".join(sorted(found)) + "\n")


def sanitized(source: Path) -> Path:
    """The object of others' source, kept: a large one takes a minute, and never changes."""
    flags = ["-std=c11", "-fPIC", *SANITIZED]
    made = KEPT / hashlib.sha256(b" ".join([*map(str.encode, flags), source.read_bytes()])).hexdigest()
    if not made.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            written = Path(folder, "made.o")
            subprocess.run(["cc", *flags, "-c", "-o", written, source], check=True, timeout=300)
            written.replace(made)
    return made


def fuzzed(name: str) -> Fuzzed:
    """The decoder of a name."""
    found: Fuzzed = import_module(f"tests.kit.{name}_fuzz").FUZZED
    return found


def main(seconds: str, seed: str = "1", *names: str) -> None:
    """Feed them, one after the other."""
    for name in names or DECODERS:
        fuzzed(name).grow(int(seconds), int(seed))


if __name__ == "__main__":
    main(*sys.argv[1:])
