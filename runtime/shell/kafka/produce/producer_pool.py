"""The producers of this process: made once for equal settings, kept for the tasks that follow.

A Python worker runs one task after the other, so a producer has one user at a time.  One that has failed is closed: what waits in
it belongs to a task that will run again.  One that has begun a transaction writes in transactions only: its next rows would be part of
the last one, which nobody ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sparkcohort.runtime.shell.kafka.produce.row_producer import Producer

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.options.producer_settings import ProducerSettings

MOST_PRODUCERS: Final = 8
_idle: list[tuple[tuple[ProducerSettings, bool], Producer]] = []  # the one used last is the last


@contextmanager
def borrowed_producer(settings: ProducerSettings, *, is_transactional: bool) -> Iterator[Producer]:
    """The producer of these settings, for one task; closed if the task fails."""
    use = settings, is_transactional
    place = next((place for place, (own, _) in enumerate(_idle) if own == use), None)
    producer = Producer(settings) if place is None else _idle.pop(place)[1]
    try:
        yield producer
    except BaseException:
        producer.close()
        raise
    _idle.append((use, producer))
    if len(_idle) > MOST_PRODUCERS:
        _idle.pop(0)[1].close()
