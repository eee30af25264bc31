"""A small coverage-guided fuzzer for what reads bytes in Python; ``make fuzz`` runs it, tests read its corpora.

Usage::

    Target("offsets", (offsets_json,), check, seeds, words)   # check raises for what must not be
    grow(target, seconds=60, seed=1)                           # feeds it, adds to tests/kit/corpora/offsets.txt
    replay(target)                                             # the corpus, whole: as fast as the parser is

An input is kept if a line follows another one that it has never followed before.  Measured beside ``atheris`` (libFuzzer) on
three of the targets: a third to a fifth of its inputs per second, and the same lines but for one more or less in the same quarter of a
minute; it needs no wheel for each Python, and counts what a report wants to say.
"""

from __future__ import annotations

import inspect
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, Final, TypeAlias

HERE: Final = Path(__file__).parent / "corpora"
MOST_INPUT: Final = 8 << 10
MOST_CPU_S: Final = 2.0
"""For one input; the slowest that is by design, a login's hash, takes a thousandth part of it."""
MOST_MEMORY: Final = 64 << 20
"""Bytes that one input may take more than any before it; the largest bound of a reader is a fourth of that."""
MOST_CUTS: Final = 2_000
Ways: TypeAlias = set[tuple[int, int]]
"""Lines that ran, each with the one before."""
FUNCTION: Final = inspect.CO_OPTIMIZED


class Broken(AssertionError):
    """An input that does what must not be."""


@dataclass(frozen=True)
class Target:
    """What is fed: ``check`` takes one input; ``parts``, modules, classes or functions, are those whose lines count."""

    name: str
    parts: tuple[Any, ...]
    check: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[bytes, ...] = ()

    @property
    def corpus(self) -> Path:
        """One input a line, with escapes for what is no letter."""
        return HERE / f"{self.name}.txt"

    def inputs(self) -> list[bytes]:
        """The corpus."""
        return [unescaped(line) for line in self.corpus.read_text().splitlines()] if self.corpus.exists() else []


def escaped(data: bytes) -> str:
    """Bytes as one line of a corpus."""
    return data.decode("latin-1").encode("unicode_escape").decode()


def unescaped(line: str) -> bytes:
    """The inverse."""
    return line.encode().decode("unicode_escape").encode("latin-1")


# --- which lines run ------------------------------------------------------------------------------


def _functions(code: CodeType) -> Iterator[CodeType]:
    if code.co_flags & FUNCTION:
        yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _functions(each)


def _code(part: Any) -> Iterator[CodeType]:
    """The code of a function, of a class' functions, or of all functions of a module."""
    if isinstance(part, ModuleType):
        yield from _functions(compile(Path(str(part.__file__)).read_text(), str(part.__file__), "exec"))
    elif isinstance(part, type):
        for each in vars(part).values():
            function = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
            if inspect.isfunction(function) and function.__code__.co_filename == inspect.getfile(part):
                yield from _functions(function.__code__)
    else:
        yield from _functions(part.__code__)


class Lines:
    """Which of a target's lines run, and behind which other line; ``fresh`` tells of the last input."""

    def __init__(self, target: Target) -> None:
        """Nothing has run."""
        self._files: dict[str, int] = {}
        self.all: set[int] = set()
        for code in (code for part in target.parts for code in _code(part)):
            base = self._files.setdefault(code.co_filename, len(self._files) + 1 << 20)
            body = {line for _, _, line in code.co_lines() if line}
            self.all |= {base + line for line in body if line != code.co_firstlineno or len(body) == 1}
        self.ways: Ways = set()
        self._before, self.fresh = 0, False
        self._tracers = {name: self._tracer(base) for name, base in self._files.items()}

    def _tracer(self, base: int) -> Any:
        ways = self.ways

        def local(frame: FrameType, event: str, _argument: object) -> Any:
            if event == "line":
                place = base + frame.f_lineno
                way = (self._before, place)
                if way not in ways:
                    ways.add(way)
                    self.fresh = True
                self._before = place
            return local

        return local

    def run(self, check: Callable[[bytes], object], data: bytes) -> None:
        """One input."""
        tracers = self._tracers
        self._before, self.fresh = 0, False
        sys.settrace(lambda frame, _event, _argument: tracers.get(frame.f_code.co_filename))
        try:
            check(data)
        finally:
            sys.settrace(None)

    def reached(self) -> int:
        """How many of the lines have run."""
        return len(self.all & {place for _, place in self.ways})


# --- what is like it ------------------------------------------------------------------------------

ODD: Final = (b"\0", b"\x01", b"\x7f", b"\x80", b"\xff", b"\0\0\0\x01", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 4)
ODD_TEXT: Final = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"1.5", b"2147483648",
    b"9223372036854775807", b"-9223372036854775809", b"\\ud800", b"\\u0000", b"\xed\xa0\x80", b"\xc3\xa9", b'""', b"{}", b"[]",
)  # fmt: skip


def _changed(data: bytes, other: bytes, words: tuple[bytes, ...], chance: random.Random) -> bytes:
    at, kind = chance.randint(0, len(data)), chance.randrange(9)
    if kind == 0 and data:
        at %= len(data)
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + bytes([chance.randrange(256)]) + data[at + chance.randrange(2) :]
    if kind == 2:
        return data[:at] + data[at + chance.choice((1, 1, 2, 4, 16)) :]
    if kind in (3, 4):
        word = chance.choice((*words, *ODD, *ODD_TEXT))
        return data[:at] + word + data[at + chance.choice((0, len(word))) :]
    if kind == 5:
        return data[:at] + other[chance.randint(0, len(other)) :]
    if kind == 6:  # a piece of another in the middle
        begin = chance.randint(0, len(other))
        return data[:at] + other[begin : begin + chance.choice((2, 8, 32))] + data[at:]
    if kind == 7:  # a piece again and again: what is nested deeply, or long
        piece = data[at : at + chance.choice((1, 1, 2, 5, 20))]
        return data[:at] + piece * chance.choice((2, 3, 10, 100, 1000, 5000)) + data[at + len(piece) :]
    return data[:at]


# --- all of it ------------------------------------------------------------------------------------


@contextmanager
def _bounded(most_memory: int) -> Iterator[None]:
    """What takes more of the processor or of memory than it may is an error of its own."""

    def late(_number: int, _frame: object) -> None:
        raise Broken(f"more than {MOST_CPU_S} s")

    before, resident = signal.signal(signal.SIGPROF, late), _most_resident()
    signal.setitimer(signal.ITIMER_PROF, MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if _most_resident() - resident > most_memory:
        raise Broken(f"{_most_resident() - resident} bytes more in memory than any before")


def _most_resident() -> int:
    """Bytes that this process has had in memory at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def attempt(target: Target, data: bytes, lines: Lines | None = None) -> None:
    """One input; raises Broken that has it.  Memory is not looked at without ``lines``: a sanitizer keeps what is given back."""
    try:
        with _bounded(sys.maxsize if lines is None else MOST_MEMORY):
            if lines is None:
                target.check(data)
            else:
                lines.run(target.check, data)
    except Exception as error:
        raise Broken(f"{target.name}: {type(error).__name__}: {str(error)[:500]}\ninput: {escaped(data)}") from error


def replay(target: Target) -> int:
    """Feed it with its seeds and its corpus; how many inputs these are."""
    inputs = [*target.seeds(), *target.inputs()]
    for data in inputs:
        attempt(target, data)
    return len(inputs)


def grow(target: Target, seconds: float, seed: int) -> str:
    """Make the corpus better; what came of it, in words."""
    lines, kept = Lines(target), list[bytes]()
    tried = _feed(target, lines, kept, seconds, random.Random(seed))
    least = smallest(target, kept)
    target.corpus.parent.mkdir(exist_ok=True)
    target.corpus.write_text("".join(f"{escaped(data)}\n" for data in least))
    return f"{target.name}: {tried} inputs tried, {len(least)} kept, {lines.reached()} of {len(lines.all)} lines"


def _feed(target: Target, lines: Lines, kept: list[bytes], seconds: float, chance: random.Random) -> int:
    """Add to ``kept`` what reaches new code; how many inputs were tried."""
    tried = 0
    for data in [*target.inputs(), *target.seeds()]:
        attempt(target, data, lines)
        kept += [data] if lines.fresh else []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(100):
            data = chance.choice(kept if chance.random() < 0.5 else kept[-20:])
            for _ in range(chance.choice((1, 1, 2, 3, 6))):
                data = _changed(data, chance.choice(kept), target.words, chance)[:MOST_INPUT]
            attempt(target, data, lines)
            kept += [data] if lines.fresh else []
        tried += 100
    return tried


def smallest(target: Target, inputs: Iterable[bytes]) -> list[bytes]:
    """Inputs that together run all that these run: short ones first, and each without what it does not need for that."""
    lines, known, least = Lines(target), Ways(), list[bytes]()

    def ways(data: bytes) -> Ways:
        lines.ways.clear()
        attempt(target, data, lines)
        return set(lines.ways)

    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        needed = ways(data) - known
        if needed:
            least.append(_shortened(data, needed, ways))
            known |= ways(least[-1])
    return least


def _shortened(data: bytes, needed: Ways, ways: Callable[[bytes], Ways]) -> bytes:
    """What is left when piece after piece is taken out: halves first, then quarters, for a bounded number of times."""
    size, left = len(data) // 2, MOST_CUTS
    while size and left:
        at = 0
        while at < len(data) and left:
            shorter, left = data[:at] + data[at + size :], left - 1
            if needed <= ways(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data
