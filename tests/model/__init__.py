"""The exhaustive model: all that two members and three partitions can come to."""
