"""A driver's membership in a process of its own, told what to do line by line.

Usage: member.py OPTIONS-AS-JSON PARTITIONS; then on standard input ``commit PARTITION OFFSET`` or ``state``.  Each line
is answered by one line of JSON on standard output; the first answer comes when the group is joined and a run number
reserved.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

from sparkcohort.runtime.errors import CohortError
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.driver.discovery import Layout
from sparkcohort.runtime.shell.driver.kafka_membership import GroupMembership
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.options.parse import parse


def main() -> None:
    """Join, reserve, obey."""
    options = parse(json.loads(sys.argv[1]))
    (topic,) = options.subscription.topics
    partitions = [TopicPartition(topic, number) for number in range(int(sys.argv[2]))]
    layout = Layout(dict.fromkeys(partitions, 1))
    log_ends: Any = SimpleNamespace(client=ClusterClient(options.kafka), layout=lambda: layout, doubt=lambda: None)
    membership = GroupMembership(options, log_ends)
    membership.start(20)
    membership.join()
    membership.reserve(dict.fromkeys(partitions, 0))
    _say(membership)
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == "commit":
                tp = TopicPartition(topic, int(words[1]))
                membership.commit({tp: (int(words[2]), membership.run_epoch.metadata())}, 15)
            _say(membership)
        except CohortError as error:
            _say(membership, raised=str(error))


def _say(membership: GroupMembership, **more: Any) -> None:
    run = membership.run_epoch.own.run if membership.run_epoch.own else 0
    failure = membership.failure()
    answer = {"state": membership.state.value, "run": run, "failure": failure.error if failure else "", **more}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


main()
