"""A checkpoint's offset and commit logs as text, beside what Kafka has: what a restart reads, and what repairs it.

In: the text of files, log starts and ends, a group's commits.  Out: values and decisions; nothing is read or written here.

``logs`` reads Spark's files (``OffsetSeqLog``, ``CommitLog``), ``positions`` compares them with the brokers', ``repairs`` decides what
is to be written.  How Spark starts again, which all of it follows (``MicroBatchExecution.populateStartOffsets``): the last file of
``offsets`` is the last batch planned; the file before it has to be there and is its start; if ``commits`` has the same number as its last
file, the batch is done and the next one begins at its end, else it runs with the ends that stand there.
"""
