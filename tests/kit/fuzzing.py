"""All fuzzers one after the other; ``make fuzz`` runs this.

    python -m tests.kit.fuzzing SECONDS [SEED] [NAME ...]

feeds each of them for so long: decoders in C under sanitizers (``fuzz``), which print how much of their code is reached and keep what
reaches new code in their corpora; readers in Python (``targets``); and those whose work is done in C in a Python whose native part is
built with sanitizers (``sanitized``).  An input that does what must not be is printed, and ends it; the others go on, and the exit
status tells.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial

from tests.kit import fuzz, sanitized, targets

TARGETS = sanitized.READERS
NATIVE = {"codecs"}
"""Readers whose work is done in C."""
FUZZERS: Mapping[str, Callable[[int, int], str]] = {
    **{name: lambda seconds, seed, name=name: fuzz.fuzzed(name).grow(seconds, seed) for name in fuzz.DECODERS},  # type: ignore[misc]
    **{name: partial((sanitized if name in NATIVE else targets).feed, each) for name, each in TARGETS.items()},
}


def main(seconds: str, seed: str = "1", *names: str) -> int:
    """Run those of these names, or all."""
    broken = 0
    for name in names or FUZZERS:
        try:
            said = FUZZERS[name](int(seconds), int(seed))
        except AssertionError as error:
            said, broken = f"{name}: broken: {error}", 1
        sys.stdout.write(f"{said}\n")
        sys.stdout.flush()
    return broken


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
