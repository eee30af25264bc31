"""Loads: what partitions weigh, and the scales on which ``load-balanced`` weighs members."""
