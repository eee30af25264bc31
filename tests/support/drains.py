"""Both drains under the same tests: which one a client made here gets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from sparkcohort.runtime.shell.drains import SWITCH, native

DRAINS = ("native", "python")


@contextmanager
def drained_by(name: str) -> Iterator[None]:
    """Clients made in this block are drained by the ``native`` code or in ``python``; fails where there is no choice."""
    assert native() is not None, "the native drain isn't there: it needs a C compiler and Python's headers to be built"
    with patch.dict(os.environ, {SWITCH: "1" if name == "native" else "0"}):
        yield
