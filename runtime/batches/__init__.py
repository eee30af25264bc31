"""What a batch is made of: slots and who claims them, how large records are, slow partitions.

``hold`` has the rules for partitions whose broker is away, ``suspected_loss`` when to believe a loss.
"""
