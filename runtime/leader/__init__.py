"""What the leader does between JoinGroup and SyncGroup.

It has the assignment computed, waits for members that left (KIP-415), keeps partitions off members that can't fetch them,
and asks for a rebalance when loads stay uneven.
"""
