"""The map: what happens to a record, a batch and a rebalance, and in which room.

A record, from Kafka to Spark::

    a leader answers Fetch            shell.kafka.fetch      own client: one connection a broker; ``kafka`` has the messages
    record batches become columns     native                 C: Kafka's batches, then Avro, JSON or Protobuf
    prefetched by the owner           shell.agent            a member's buffer; one agent on an executor, a member for each query
    handed to a task                  shell.agent            shared memory and a local socket
    read directly where it isn't      shell.kafka.fetch      the same source; ``batches.range_progress`` says what a loss is
    rows for Spark                    streaming              Arrow to the JVM

A batch::

    the end of the batch is asked     streaming, shell.driver      log ends by a background thread; limits
    cut into slots                    streaming, ``batches``       a plan: who reads what is a matter of speed only
    tasks claim slots                 shell.coordinator            ``batches.claims``: by plan and index
    committed by Spark, then Kafka    shell.driver                 group commits: never beyond Spark's commit log

A rebalance::

    a member joins or leaves          ``group``, shell.agent       its machine: heartbeat, join, sync, revoke
    the group steps                   ``group``                    the coordinator's machine: table, fencing, two-step revocation
    the leader assigns                ``leader``, ``assignors``    delayed rebalance, load, who reaches which broker
    journal, answers, history         shell.coordinator            the step is in the journal before a member hears of it
    the driver in Kafka's own group   ``kafka``, shell.driver      membership, fencing by run epoch, hand-over

Rooms named in quotes are pure: time is an argument, and they know no clock, thread, socket or library.  ``protocol`` has the messages,
``values`` the columns, ``shell.options`` what a user has set, ``shell.rpc`` the run's port, threads and clocks.
Where each rule stands: docs/architecture.md.
"""
