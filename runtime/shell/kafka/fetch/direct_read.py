"""One direct read from Kafka: ranges that no agent has, and all ranges of a batch read; by a task, or for one by its agent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Protocol

from sparkcohort.runtime.protocol.calls import DirectEnd
from sparkcohort.runtime.protocol.partitions import Range
from sparkcohort.runtime.shell.kafka.fetch.events import Piece, malformed_counts
from sparkcohort.runtime.shell.kafka.fetch.range_reader import RangeReader
from sparkcohort.runtime.shell.kafka.fetch.relay import RelayedReader
from sparkcohort.runtime.shell.kafka.tokens import await_token
from sparkcohort.runtime.values.columns import Columns

_log = logging.getLogger("sparkcohort.task")


class ReadOptions(Protocol):
    """What a read needs of a query's options, and of an agent's configuration."""

    @property
    def kafka(self) -> Mapping[str, str]:
        """The client's settings."""

    @property
    def columns(self) -> Columns:
        """The columns of the rows."""

    @property
    def fail_on_data_loss(self) -> bool:
        """Whether a loss is an error."""

    @property
    def poll_timeout_ms(self) -> int:
        """The longest time without progress."""


class DirectRead:
    """One read; ``end`` is what its report needs, after the last piece."""

    def __init__(
        self, options: ReadOptions, elsewhere: RelayedReader | None = None, on_idle: Callable[[], None] = lambda: None
    ) -> None:
        """Opens nothing; ``elsewhere`` and ``on_idle`` are the ``RangeReader``'s."""
        self._options, self._elsewhere, self._on_idle = options, elsewhere, on_idle
        self.end = DirectEnd()

    def pieces(self, ranges: Sequence[Range], ids: Mapping[str, str]) -> Iterator[Piece]:
        """What ``RangeReader.read`` yields of ranges of topics of these ids.  Raises CohortError."""
        if self._options.kafka.get("sasl.oauthbearer.provider"):
            await_token(self._options.kafka)  # before the first fetch, also through short failures of the provider
        reader = RangeReader(
            self._options.kafka,
            columns=self._options.columns,
            fail_on_data_loss=self._options.fail_on_data_loss,
            poll_timeout_ms=self._options.poll_timeout_ms,
            on_data_loss=_log.warning,
            elsewhere=self._elsewhere,
            on_idle=self._on_idle,
        )
        with closing(reader):
            yield from reader.read(ranges, ids)
            self.end = DirectEnd(tuple(sorted(reader.replaced)), tuple(malformed_counts(reader.malformed)))
