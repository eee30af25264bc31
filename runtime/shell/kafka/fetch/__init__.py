"""Our own Fetch client, in the order of the data.

``connection`` lets a process in to one broker; ``cluster`` knows who leads what (``metadata`` asks); ``broker`` has one
connection, its fetch session and the one request under way; ``assigned_partition`` what was asked for and handed out; ``fetch_client``
polls them all in one thread; ``decode`` and ``compression`` turn batches into Arrow's buffers; ``source`` is the seam's other
side and falls back to librdkafka.  Connecting and asking block, so they run in ``background``'s threads.
"""
