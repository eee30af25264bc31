"""Which drain: the native one wherever it can be loaded, else the one in Python, with one warning.

``COHORT_NATIVE=0`` in the environment of the executors (and their agents, which inherit it) means the one in Python, for
diagnosis and for the tests that both have to pass.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from sparkcohort.runtime.shell.drain import BATCH_BYTES, Drain

SWITCH = "COHORT_NATIVE"

_log = logging.getLogger("sparkcohort.drain")


def new_drain(conf: Mapping[str, Any], *, include_headers: bool, batch_bytes: int = BATCH_BYTES) -> Drain:
    """A drain for these librdkafka settings; raises KafkaException for those that librdkafka refuses."""
    # A callback is Python's: only confluent-kafka's own client can call it.
    plain = all(isinstance(value, str | int | float) for value in conf.values())
    kind = native() if plain and os.environ.get(SWITCH) != "0" else None
    return (kind or _in_python())(conf, include_headers=include_headers, batch_bytes=batch_bytes)


def _in_python() -> Callable[..., Drain]:
    from sparkcohort.runtime.shell.drain_python import PythonDrain  # noqa: PLC0415  pyarrow.compute is slow to come

    return PythonDrain


@cache
def native() -> Callable[..., Drain] | None:
    """The native drain; None where it can't be loaded, of which one line of warning tells."""
    try:
        from sparkcohort.runtime.shell.drain_native import NativeDrain  # noqa: PLC0415  it may not be there
    except ImportError as error:
        _log.warning(
            "the native drain can't be loaded (%s): records are read in Python, at several times the CPU; a wheel "
            "built where there are a C compiler and Python's headers has it",
            error,
        )
        return None
    return NativeDrain
