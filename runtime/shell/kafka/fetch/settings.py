"""What every Fetch request of one client says alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sparkcohort.runtime.kafka.fetch_messages import fetch_request
from sparkcohort.runtime.kafka.fetch_session import Request
from sparkcohort.runtime.shell.kafka.fetch.assigned_partition import by_topic
from sparkcohort.runtime.shell.options.kafka_settings import value_of


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """By librdkafka's settings."""

    max_wait_ms: int
    min_bytes: int
    committed: bool
    rack: str

    @classmethod
    def parse(cls, config: Mapping[str, Any]) -> Self:
        """Read them; raises ValueError for what is no number."""
        return cls(
            int(config["fetch.wait.max.ms"]),
            int(value_of(config, "fetch.min.bytes")),
            str(config["isolation.level"]) == "read_committed",
            str(value_of(config, "client.rack")),
        )

    def body(self, request: Request, max_bytes: int, version: int) -> bytes:
        """The request's bytes, without a header."""
        return fetch_request(
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=max_bytes,
            committed=self.committed,
            session=request.session,
            partitions=by_topic(request.partitions),
            forgotten=by_topic(dict.fromkeys(sorted(request.forgotten))),
            rack=self.rack,
            version=version,
        )
