"""``cohort checkpoint show|diff|repair``: a checkpoint's offset and commit logs beside what Kafka has, without Spark.

``logs`` reads Spark's files (``OffsetSeqLog``, ``CommitLog``).  ``positions`` compares them with the brokers'.  ``repairs`` decides which
files are written.  These three are pure: text in, values out.  The other modules open the folder or URI (``folder``, by pyarrow's
file systems), ask the brokers (``KafkaGroup``), and print tables, JSON or csv.  With
``repair --execute`` they write the files, after a backup.  State stores are never touched.  One thread; every request is bounded.

How Spark starts again (``MicroBatchExecution.populateStartOffsets``): the last file of ``offsets`` is the last batch planned.  The file
before it has to exist: it is the start of that batch.  If the last file of ``commits`` has the same number, the batch is done, and the
next one begins at its end.  Else the batch runs again with the ends in its file.
"""
