"""A query with ``spark.python.daemon.module=sparkcohort.python_daemon``, as conf/spark-defaults.conf recommends."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.kit.application import Application
from tests.kit.broker import Broker
from tests.kit.delivery import check, from_parquet, held
from tests.kit.produce import produce

MODULE = "sparkcohort.python_daemon"


@pytest.mark.timeout(300)
def test_all_workers_come_from_it(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Each daemon of the application is ours, every record arrives once, and a worker that dies is replaced."""
    broker.admin.create_topic(topic, 4)
    produce(broker.bootstrap, topic, 4_000, partitions=4)
    conf = {"spark.python.daemon.module": MODULE}
    with Application(tmp_path / "app", master="local-cluster[1,2,1024]", conf=conf) as application:
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "group.id": topic}
        query = application.start(topic, options)
        query.wait_for_members(1)
        (executor,) = application.driver.executors()
        daemons = [each for each in psutil.Process(executor.pid).children() if "pyspark.worker" in each.cmdline()]
        assert daemons and all(MODULE in each.cmdline() for each in daemons)
        for worker in daemons[0].children():
            worker.kill()
        produce(broker.bootstrap, topic, 4_000, partitions=4, first=1_000)
        query.wait_for_no_lag()
        query.stop()
    check(from_parquet(query.out), held(broker.bootstrap, [topic])).assert_exact()
