"""What a batch is made of: slots and who claims them, how large records are, slow partitions, silent agents, suspected loss."""
