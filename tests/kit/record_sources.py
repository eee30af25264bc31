"""All sources under the same tests: which one a client made here gets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from sparkcohort.runtime.shell.kafka.fetch.record_source import BY_LIBRDKAFKA, SWITCH, RecordSource

SOURCES = ("fetching", "librdkafka")
_SWITCHES = {"fetching": "", "librdkafka": BY_LIBRDKAFKA}


@contextmanager
def read_by(name: str) -> Iterator[None]:
    """Clients made in this block fetch by themselves, or by confluent-kafka's consumer, over ``librdkafka``."""
    with patch.dict(os.environ, {SWITCH: _SWITCHES[name]}):
        yield


def by_librdkafka(conf: Mapping[str, Any], **more: Any) -> RecordSource:
    """A source whose records confluent-kafka's consumer reads."""
    with read_by("librdkafka"):
        return RecordSource(conf, **more)
