"""Decoders in C built with sanitizers, and what is fed to them (``fuzz.h``).

``grow`` feeds one for so long and adds to its corpus (``json_corpus.txt`` and so on) what reaches new code: of a new plan, begin with
a line that is a good record of it.  Tests
read the corpora, with every allocation failing once.  A decoder's own module says what it reads into.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
NATIVE: Final = HERE.parents[1] / "native"
KEPT: Final = HERE.parents[1] / ".cache" / "sanitized"
FLAGS: Final = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{NATIVE}"]
SANITIZED: Final = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
TRACED: Final = "-fsanitize-coverage=trace-pc"
SHORT: Final = [f"-Wl,--wrap={name}" for name in ("malloc", "calloc", "realloc")]
DECODERS: Final = ("avro", "batches", "json", "protobuf")
TRACE: Final = re.compile(r"\b(call|jmp)\b.*<__sanitizer_cov_trace_pc>")


class Fed(NamedTuple):
    """What came of it: the inputs that reach all the code which was reached, in hex; how many were tried and are left; how much that is."""

    kept: list[str]
    tried: int
    left: int
    reached: int  # blocks


@dataclass(frozen=True)
class Fuzzed:
    """A decoder: its harness, our sources, and others' sources, which are sanitized but not traced."""

    name: str
    sources: tuple[str, ...]
    plans: Callable[[], bytes]
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
        harness, sources = folder / f"{self.name}_fuzz.o", [str(NATIVE / source) for source in self.sources]
        command = ["cc", *flags, *SANITIZED, "-c", "-o", str(harness), str(HERE / f"{self.name}_fuzz.c")]
        subprocess.run(command, check=True, timeout=300)  # untraced: what is counted is the decoder's
        objects = [str(harness), *(str(sanitized(source)) for source in self.others())]
        command = ["cc", *flags, *SANITIZED, TRACED, *SHORT, "-o", str(program), *sources, *objects, "-lm"]
        subprocess.run(command, check=True, timeout=300)
        written.write_bytes(self.plans())
        return [str(program), str(written)]

    def run(self, command: list[str], rounds: int, seconds: int, seed: int, timeout: float) -> Fed:
        """Feed the program; an error when a sanitizer has found something."""
        command = [*command, str(self.corpus), str(rounds), str(seconds), str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        if done.returncode:
            raise AssertionError(done.stderr[-20_000:])
        return Fed(done.stdout.split(), *map(int, done.stderr.split()))

    def grow(self, seconds: int, seed: int) -> str:
        """Add to the corpus what reaches new code; what came of it, in words."""
        with tempfile.TemporaryDirectory() as folder:
            command = self.build(Path(folder))
            fed = self.run(command, 0, seconds, seed, seconds + 600)
            whole = blocks(command[0])
        lines = {*self.corpus.read_text().split(), *fed.kept}
        self.corpus.write_text("".join(f"{line}\n" for line in sorted(lines, key=lambda line: (len(line), line))))
        return f"{self.name}: {fed.tried} inputs tried, {len(lines)} kept, {fed.reached} of {whole} blocks"


def blocks(program: str) -> int:
    """How many blocks of code the program has, as the compiler traces them."""
    shown = subprocess.run(
        ["objdump", "--disassemble", "--no-show-raw-insn", program],
        check=True, capture_output=True, text=True, timeout=100,
    ).stdout  # fmt: skip
    return len(TRACE.findall(shown))


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
