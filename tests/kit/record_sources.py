"""All sources under the same tests: which one a client made here gets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from sparkcohort.runtime.shell.kafka.fetch.new_source import BY_LIBRDKAFKA, SWITCH

SOURCES = ("fetching", "librdkafka")
_SWITCHES = {"fetching": "", "librdkafka": BY_LIBRDKAFKA}


@contextmanager
def read_by(name: str) -> Iterator[None]:
    """Clients made in this block fetch by themselves, or by confluent-kafka's consumer, over ``librdkafka``."""
    with patch.dict(os.environ, {SWITCH: _SWITCHES[name]}):
        yield
