"""All fuzzers one after the other; ``make fuzz`` runs this.

    python -m tests.kit.fuzzing SECONDS [SEED] [NAME ...]

feeds each of them for so long: readers in Python (``targets``), in the JVM (``jvm_targets``), and those whose work is done in C,
in a Python whose native part is built with sanitizers (``sanitized``), which keep what reaches new code in their corpora.  An
input that does what must not be is printed, and ends it; the others go on, and the exit status tells.
"""

from __future__ import annotations

import sys
from typing import Final

from tests.kit import jvm_targets, sanitized, targets

READERS: Final = sanitized.READERS | {target.name: target for target in jvm_targets.TARGETS}


def main(seconds: str, seed: str = "1", *names: str) -> int:
    """Run those of these names, or all."""
    broken = 0
    for name in names or READERS:
        target = READERS[name]
        try:
            said = (sanitized if target in sanitized.IN_C else targets).feed(target, int(seconds), int(seed))
        except AssertionError as error:
            said, broken = f"{name}: broken: {error}", 1
        sys.stdout.write(f"{said}\n")
        sys.stdout.flush()
    return broken


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
