"""A broker that takes some records, with the Java options that follow the folder."""

import sys

from tests.kit.broker import Broker
from tests.kit.produce import produce

with Broker(java_options=sys.argv[2:]) as broker:
    broker.admin.create_topic("some", 1)
    produce(broker.bootstrap, "some", 100, partitions=1)
    broker.stop()
