"""One query's side of the driver: the real Kafka group, the log ends, and the coordinator with its port.

``session`` ties them together for the stream reader.  ``kafka_membership`` carries out the machine of the group's one
static member (``runtime.kafka.membership``) and owns its client; ``group_commits`` tells Kafka what Spark's commit log
has, in a thread; ``log_ends`` asks for the logs' ends, on the thread of the one client of the cluster.
``status`` reads the coordinator's group; ``metric_values`` makes samples of it; ``metrics`` serves them, to few connections at a
time, each in a thread.  On the same port ``live_page`` serves the page, the status as a ``document``, and from ``live_feed`` its
changes; ``problems`` and ``flow_meter`` add what needs the status' past.
"""
