"""``cohort checkpoint show|diff|repair``: a checkpoint's offset and commit logs, without Spark.

In: a folder or URI (``folder``, by pyarrow's file systems) and, for diff and repair, what brokers answer (``kafka_offsets``).  Out: tables,
JSON, csv; with ``repair --execute`` the files that ``sparkcohort.runtime.checkpoint`` decided on, after a backup.  State stores are never
touched.  One thread; every request to a broker is bounded.
"""
