"""What a user can be told about the partitions of an executor: the option ``rebalance.listener`` names a class like this.

It lives in the member agent, one per executor and query; nothing of it runs in Spark's tasks or on the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    Partitions: TypeAlias = Sequence[tuple[str, int]]

LISTENER_EVENTS: Final = ("created", "assigned", "revoked", "lost")
"""What a listener is told, in the words of the metrics."""


class RebalanceListener:
    """Told which partitions its member gets, gives up and loses (Kafka: ``ConsumerRebalanceListener``).

    ``partitions`` are (topic, partition) pairs, sorted, never none: with cooperative rebalancing only those that change.
    One call at a time, in the order in which it happened: what is taken away before what is given.  A subclass
    overrides what it needs; any object with at least one of the methods will do as well.
    """

    def on_partitions_assigned(self, partitions: Partitions) -> None:
        """The member has got these; it fetches them already."""

    def on_partitions_revoked(self, partitions: Partitions) -> None:
        """The member is giving these up; nobody else gets them before this returns, or the rebalance timeout is near."""

    def on_partitions_lost(self, partitions: Partitions) -> None:
        """These may be somebody else's already: the member was out of the group.  As revoked, unless overridden."""
        self.on_partitions_revoked(partitions)
