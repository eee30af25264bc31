"""A relay in front of a broker that can leave all brokers out of its answers to Metadata, as one that isn't let in yet does.

Usage::

    guarded.brokerless.brokerless = True     # clients of guarded.at["BROKERLESS"] go through it, see ``shared_brokers``
    guarded.brokerless.cut()                 # and so ask for brokers now
"""

from __future__ import annotations

from sparkcohort.runtime.kafka.fetch_messages import METADATA
from tests.kit.relay import AnswerRelay

FLEXIBLE = 9
"""From this version of Metadata on lengths are varints; who asks by an older one is answered as the broker does."""


class BrokerlessRelay(AnswerRelay):
    """Counts the answers that it has left without a broker."""

    def __init__(self, host: str, target_port: int) -> None:
        """Listen; the target need not be there yet."""
        self.brokerless = False
        self.told = 0
        """Answers without a broker."""
        super().__init__(host, target_port)

    def is_watched(self, api: int, version: int) -> bool:
        """Metadata, in its flexible versions."""
        return api == METADATA and version >= FLEXIBLE

    def changed_answer(self, answer: bytes) -> bytes:
        """Without its brokers, while there are to be none."""
        if not self.brokerless:
            return answer
        self.told += 1
        return _without_brokers(answer)


def _without_brokers(answer: bytes) -> bytes:
    """An answer to Metadata, its list of brokers emptied: correlation id, tags, throttle time, brokers, and the rest."""
    start = 4 + 1 + 4
    count, at = _length(answer, start)
    for _ in range(count):
        size, at = _length(answer, at + 4)  # behind the node id: its host
        size, at = _length(answer, at + size + 4)  # behind the port: its rack
        at += max(size, 0) + 1  # no tags
    return answer[:start] + b"\1" + answer[at:]


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A compact length, -1 for null, and where what has it begins; none here has two bytes' worth."""
    assert data[at] < 128
    return data[at] - 1, at + 1
