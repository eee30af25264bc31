"""Sources without and with the settings of ``conf/spark-defaults.conf``: ways to run the same query."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tools.bench.source.peers import COHORT, Peer
from tools.recommended import recommended


@dataclass(frozen=True)
class Way:
    """A source with the recommended configuration, or without."""

    peer: Peer
    recommended: bool = False

    @property
    def name(self) -> str:
        """As in reports."""
        return f"{self.peer.name}, recommended" if self.recommended else self.peer.name

    @property
    def settings(self) -> Mapping[str, str]:
        """Spark settings of its application."""
        return recommended() if self.recommended else {}


PLAIN, RECOMMENDED = Way(COHORT), Way(COHORT, recommended=True)


def ways(peers: Collection[Peer], chosen: bool | None) -> list[Way]:
    """Cohort without and with the recommended configuration, or as chosen; other sources without."""
    ours = [way for way in (PLAIN, RECOMMENDED) if chosen is None or way.recommended is chosen]
    return [way for way in ours if way.peer in peers] + [Way(peer) for peer in peers if peer is not COHORT]
