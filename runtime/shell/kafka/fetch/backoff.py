"""How long a fetching client leaves a broker alone after something went wrong: ever longer, by what it was."""

from __future__ import annotations

import random

from sparkcohort.runtime.shell.options.connection_settings import ConnectionRefused

BACKOFF_S = 0.1  # between two questions for metadata, two attempts to connect, and after an error of a partition
MOST_BACKOFF_S = 1.0
MOST_REFUSED_S = 10.0  # a broker that refuses us counts and logs every attempt, and may lock the user out
JITTER = 0.2  # so that not all clients of a cluster come back at once (KIP-580)


def backoff(failures: int, error: Exception | None = None) -> float:
    """For how many seconds to wait after so many failures in a row, the last of which was this."""
    most = MOST_REFUSED_S if isinstance(error, ConnectionRefused) else MOST_BACKOFF_S
    spread = random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311  no secret
    return min(BACKOFF_S * float(1 << min(max(failures - 1, 0), 16)), most) * spread
