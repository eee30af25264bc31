"""A relay in front of a real broker that says that it speaks older versions of some requests, as a broker without topic ids does.

Usage::

    relay = OlderRelay("127.0.0.1", port_of_the_broker)    # clients are told relay.port, see Cluster(doors=...)
    relay.most[FETCH] = 12                                  # from the next connection on
    relay.versions                                          # of each request that came through, by its api key

The broker's own classes read and answer the older versions; nothing but ApiVersions is changed.
"""

from __future__ import annotations

import struct
from collections import defaultdict

from tests.kit.relay import AnswerRelay

API_VERSIONS = 18


class OlderRelay(AnswerRelay):
    """Lowers the versions in answers to ApiVersions."""

    def __init__(self, host: str, target_port: int) -> None:
        """Listen; the target need not be there yet."""
        self.most: dict[int, int] = {}
        self.versions: dict[int, set[int]] = defaultdict(set)
        super().__init__(host, target_port)

    def is_watched(self, api: int, version: int) -> bool:
        """ApiVersions; the versions of all requests are noted."""
        self.versions[api].add(version)
        return api == API_VERSIONS

    def changed_answer(self, answer: bytes) -> bytes:
        """ApiVersions v3: correlation id, error, a compact array of (key, least, most, tags)."""
        older = bytearray(answer)
        count = older[6] - 1
        assert 0 < count < 127
        for index in range(count):
            at = 7 + 7 * index
            api, least, most = struct.unpack_from(">hhh", older, at)
            struct.pack_into(">h", older, at + 4, max(least, min(most, self.most.get(api, most))))
        return bytes(older)
