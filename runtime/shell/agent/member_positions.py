"""Where a member's partitions are fetched from, and what was handed over of them and is to be committed.

No clock and no connection: times are arguments, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.protocol.messages import OffsetFetch, OffsetFetchReply
from sparkcohort.runtime.protocol.partitions import Range, TopicPartition

RETRY_MS: Final = 1_000
COMMIT_DELAY_MS: Final = 20
"""One commit for what the executor's tasks hand over within a moment."""


class MemberPositions:
    """The positions of one member."""

    def __init__(self) -> None:
        self._unknown: set[TopicPartition] = (
            set()
        )  # assigned, and not fetched before the group has told their positions
        self._ask_due_ms = 0
        self._served: dict[TopicPartition, int] = {}  # handed over, not committed yet
        self._commit_due_ms = 0

    def due_ms(self) -> list[int]:
        """When there is something to ask or to commit, if there is."""
        return [self._ask_due_ms] * bool(self._unknown) + [self._commit_due_ms] * bool(self._served)

    def add(self, partitions: Collection[TopicPartition]) -> None:
        """The member owns more partitions."""
        self._unknown |= set(partitions)
        self._ask_due_ms = 0

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """It owns them no longer; what was handed over is still committed."""
        self._unknown -= set(partitions)

    def due_question(self, now_ms: int) -> OffsetFetch | None:
        """The question for positions, if it is due."""
        if not self._unknown or now_ms < self._ask_due_ms:
            return None
        self._ask_due_ms = now_ms + RETRY_MS
        return OffsetFetch(tuple(sorted(self._unknown)))

    def add_answer(self, reply: OffsetFetchReply) -> Mapping[TopicPartition, int]:
        """The positions that are known now, and were not."""
        positions = {tp: offset for tp, offset in reply.offsets if offset >= 0 and tp in self._unknown}
        if reply.error != ErrorCode.NONE:
            return {}
        self._unknown -= set(positions)
        return positions

    def add_served(self, ranges: Sequence[Range], now_ms: int) -> None:
        """These ranges were handed over to their ends."""
        self._commit_due_ms = self._commit_due_ms if self._served else now_ms + COMMIT_DELAY_MS
        self._served.update((item.tp, item.end) for item in ranges)

    def take_due_commits(self, now_ms: int) -> Mapping[TopicPartition, int]:
        """What is to be committed now."""
        if now_ms < self._commit_due_ms:
            return {}
        served, self._served = self._served, {}
        return served
