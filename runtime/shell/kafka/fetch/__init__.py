"""The source of record batches: ranges of offsets in, Arrow record batches out.

``record_source`` is the seam: partitions and positions in, ``events`` with records out.  It has our own client, or confluent-kafka's
consumer (``consumer_client``) for what only librdkafka has; ``value_decoding`` makes columns of what is inside of keys and values.
``range_reader`` reads ranges to their end by the rules of ``batches.range_progress``; ``relay`` does it for a task that does not reach a
broker.  A source belongs to the thread that polls it.

Our own client, in the order of the data: ``connection`` lets a process in to one broker; ``cluster`` knows who leads what (the
``ClusterClient`` of the room above asks); ``broker`` has one connection, its fetch session and the one request under way;
``assigned_partition`` what was asked for and handed out; ``fetch_client`` polls them all in one thread; ``decode`` and ``compression`` turn
batches into Arrow's buffers.  Connecting blocks, so it runs in ``background``'s threads.
"""
