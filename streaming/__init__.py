"""Spark's side.  ``source`` is the format, ``reader`` the stream on the driver, ``task`` what an executor runs for a slot.

One micro-batch::

    latestOffset     ``reader``: settle losses and unreachable partitions, then limits (``limits``), the end is fixed
    partitions       ``reader``: ``planner`` and ``cutting`` make slots of the ranges; the plan goes to the coordinator
    read             ``task``: claims a slot from the executor's agent, or starts one (``agent_start``); else ``direct_read``;
                     with Cohort's jar ``SlotReader.java`` does it, and leaves to ``task`` what the agent can't read
    commit           ``reader``: the batch is in Spark's commit log, its offsets go to Kafka

A write (``writer``, of streams and DataFrames) is one call for each task: its rows go to the process's producer (``sink_rows``), and what was
acknowledged comes back as the task's message.

A batch read (``batch_reader``, ``batch_planner``) fixes its ranges once, on the driver, and its tasks read them directly.
``planner`` and ``source_offsets`` are pure.
"""
