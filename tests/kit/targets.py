"""What reads bytes in Python, and what it is fed: seeds, a corpus, and inputs that are like them.

Usage::

    Target("offsets", check, seeds, words)   # check raises for what must not be
    replay(target)                           # seeds and corpus (tests/kit/corpora/offsets.txt)
    feed(target, seconds=60, seed=1)         # what is like them; the input that breaks it is in the error
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

HERE: Final = Path(__file__).parent / "corpora"
MOST_INPUT: Final = 8 << 10
MOST_CPU_S: Final = 2.0
"""For one input; the slowest that is by design, a login's hash, takes a thousandth part of it."""
ODD: Final = (
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b'"',
    b"{",
    b"[",
    b"null",
    b"1e999",
    b"NaN",
    b"-1",
    b"\\ud800",
    b"\xed\xa0\x80",
)


class Broken(AssertionError):
    """An input that does what must not be."""


@dataclass(frozen=True)
class Target:
    """What is fed: ``check`` takes one input."""

    name: str
    check: Callable[[bytes], object]
    seeds: Callable[[], Iterable[bytes]] = list
    """Inputs in the form that the code has now."""
    words: tuple[bytes, ...] = ()
    mend: Callable[[bytes], bytes] = bytes
    """What is like an input may need a checksum to get any further."""

    @property
    def corpus(self) -> Path:
        """One input a line, with escapes for what is no letter."""
        return HERE / f"{self.name}.txt"

    def inputs(self) -> list[bytes]:
        """The seeds, and the corpus."""
        return [*self.seeds(), *map(unescaped, self.corpus.read_text().splitlines())]


def escaped(data: bytes) -> str:
    """Bytes as one line of a corpus."""
    return data.decode("latin-1").encode("unicode_escape").decode()


def unescaped(line: str) -> bytes:
    """The inverse."""
    return line.encode().decode("unicode_escape").encode("latin-1")


def changed(data: bytes, other: bytes, words: tuple[bytes, ...], chance: Random) -> bytes:
    """The same with a piece of it replaced: by any bytes, a word, a piece of the other one, nothing, or itself many times."""
    at = chance.randint(0, len(data))
    end = at + chance.choice((0, 0, 1, 1, 2, 4, 20))
    begin = chance.randint(0, len(other))
    piece = chance.choice(
        (
            chance.randbytes(chance.choice((1, 1, 4))),
            chance.choice((*words, *ODD)),
            other[begin : begin + chance.choice((2, 8, 32))],
            other[begin:],
            data[at:end] * chance.choice((0, 2, 10, 1000)),
        )
    )
    return (data[:at] + piece + data[end:])[:MOST_INPUT]


def attempt(target: Target, data: bytes) -> None:
    """One input; raises Broken that has it, also for what takes more of the processor than it may."""
    cpu_s = time.process_time()
    try:
        target.check(data)
        assert time.process_time() - cpu_s < MOST_CPU_S, f"more than {MOST_CPU_S} s"
    except Exception as error:
        raise Broken(f"{target.name}: {type(error).__name__}: {str(error)[:500]}\ninput: {escaped(data)}") from error


def replay(target: Target, trial: Callable[[Target, bytes], object] = attempt) -> int:
    """Try its seeds and its corpus; how many inputs these are."""
    inputs = target.inputs()
    for data in inputs:
        trial(target, data)
    return len(inputs)


def feed(target: Target, seconds: float, seed: int, trial: Callable[[Target, bytes], object] = attempt) -> str:
    """Try what is like its inputs for so long, and like those of which the trial is true; how many were tried, in words."""
    end, tried, inputs, chance = time.monotonic() + seconds, 0, target.inputs(), Random(seed)
    while time.monotonic() < end:
        data = chance.choice(inputs)
        for _ in range(chance.choice((1, 1, 2, 3, 6))):
            data = changed(data, chance.choice(inputs), target.words, chance)
        data = target.mend(data)
        if trial(target, data):
            inputs.append(data)
        tried += 1
    return f"{target.name}: {tried} inputs tried"
