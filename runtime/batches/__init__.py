"""What a batch is made of: slots and who claims them, how large records are, slow partitions.

And what it leaves out: ``hold`` is the rule for partitions whose broker is away, ``suspected_loss`` when to believe a loss.
``offset_filters`` are the filters of a batch read as bounds of what is read.
"""
