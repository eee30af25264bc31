"""A rebalance listener: shipped with --py-files, or installed where driver and executors run."""

import logging

from sparkcohort import RebalanceListener


class Listener(RebalanceListener):
    """Logs which partitions this executor reads."""

    def on_partitions_assigned(self, partitions):
        """``(("orders", 0), ("orders", 3))``: only those that are new."""
        logging.getLogger("audit").info("reading %s", partitions)

    def on_partitions_revoked(self, partitions):
        """Nobody else gets them before this returns."""
        logging.getLogger("audit").info("giving up %s", partitions)
