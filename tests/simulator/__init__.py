"""The group under a virtual clock: the production core, a network that misbehaves, and laws that must hold anyway.

What is real: ``group.step`` and ``journal.replay`` (the coordinator), ``member.step`` (every member), ``leader.assignment.plan``
with the real assignors, the messages between them.  Not a line of them is replaced.

What is simulated, and how:

* **Time** is a number that jumps to the next event (``schedule``).  A run of minutes takes milliseconds.
* **The network** delays, drops, duplicates and reorders requests, replies and pushes, and cuts processes off
  (``network``).  As with gRPC, a call has one outcome: its first reply, or its time-out; what comes later is not
  heard.  But a request whose caller has given up may still arrive, late, or twice.
* **Processes** start, die, freeze with all that waits for them, thaw, leave, and come back: as somebody else
  or under their instance id, perhaps while the old one still runs (``process``).
* **The coordinator** crashes between two steps or in the middle of one: what it had kept of the step's records stays,
  actions that were not sent are not (``coordinator``).  Its journal is written ahead: nothing is sent before its
  records are kept.  The next run replays and resumes, with a higher block of generations.  The four cases of
  Kafka's coordinator are counted apart: before a join completes, before the sync, when stable, with a commit staged.
  It also freezes (its own clock stands still meanwhile, as the shell's does), and unloads in good order.
* **The leader** is a driver that lives in the coordinator's process, joins first, subscribes to nothing, knows what the
  coordinator knows of partitions, and dies and returns with it, as in the product.
* **Work**: owners fetch positions, read on, commit; zombies and liars commit too.  Topics come, go and grow.

``laws`` holds after every step what design and tests call I1, I4, I5, I6, I10 (as the agreement of members and group
about every owned partition) and that every request is answered once; when the faults have ended, I2, I3, I11, I12.
I13 is the digest of the log.  Not simulated, since the core has no part in them: the plan's ranges (I7, I8: tests of
the planner), the bytes (I9: end-to-end tests), sockets, TLS, threads, Spark, the real Kafka group.

All chance comes from one ``Random(seed)``, so a seed is a run: ``python -m tests.simulator --seed 17`` tells it again.
"""
