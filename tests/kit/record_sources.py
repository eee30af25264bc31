"""All sources under the same tests: which one a client made here gets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from sparkcohort.runtime.shell.kafka.consumer.new_source import BY_LIBRDKAFKA, IN_PYTHON, SWITCH

SOURCES = ("fetching", "librdkafka", "python")
_SWITCHES = {"fetching": "1", "librdkafka": BY_LIBRDKAFKA, "python": IN_PYTHON}


@contextmanager
def read_by(name: str) -> Iterator[None]:
    """Clients made in this block fetch by themselves, by ``librdkafka`` natively, or by it in ``python``."""
    with patch.dict(os.environ, {SWITCH: _SWITCHES[name]}):
        yield
