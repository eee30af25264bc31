"""What Kafka clients log: one line each, printable, and the same line twice a minute at most.

librdkafka quotes brokers, and both it and our own client repeat themselves while something doesn't work.
"""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from sparkcohort.runtime.text import printable

REPEAT_S = 30.0
MOST_SHAPES = 200

log = logging.getLogger("sparkcohort.kafka")


class Calm(logging.Filter):
    """Drops a client's line that differs only in numbers from one of the last 30 seconds; makes the others printable.

    librdkafka's errors are no more than warnings: it tries again by itself, and what ends a query is raised.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line goes on."""
        if record.levelno > logging.WARNING:
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        message = record.getMessage()
        record.msg, record.args = printable(message), ()
        # Our own lines about the group are all of interest; those of a client say which thread, or are marked.
        text = message if getattr(record, "repeats", False) else message.partition("[thrd:")[2]
        shape = re.sub(r"\d+", "0", text)[:500]
        now = time.monotonic()
        if shape and now - self._last.get(shape, -REPEAT_S) < REPEAT_S:
            return False
        self._last = {key: logged_at for key, logged_at in self._last.items() if now - logged_at < REPEAT_S}
        if shape and len(self._last) < MOST_SHAPES:
            self._last[shape] = now
        return True


log.addFilter(Calm())


class _Detail(logging.LoggerAdapter[logging.Logger]):
    """What the client logs while it tries again is detail to us: what becomes an error is raised, with its reason."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log at INFO at most."""
        self.logger.log(min(level, logging.INFO), msg, *args, **{**kwargs, "extra": {"repeats": True}})


CLIENT_LOG = _Detail(log)
"""For the clients that fetch."""
