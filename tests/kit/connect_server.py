"""The Spark Connect server that pip's PySpark brings, as a process of its own on a port that the system chose.

Usage::

    with connect_server(tmp_path, environment(tmp_path, run), {"spark.master": "local[2]"}) as remote:
        ...                                        # remote is its URL, sc://127.0.0.1:…
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.kit.spark import QUIET
from tests.kit.standalone import daemon, said

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}


@contextmanager
def connect_server(
    directory: Path, env: Mapping[str, str], conf: Mapping[str, str] | None = None, *, name: str = "server"
) -> Iterator[str]:
    """A server with these settings, which writes to ``name.log`` in ``directory``; its address for ``remote(...)``."""
    settings = QUIET | SETTINGS | {"spark.sql.warehouse.dir": str(directory / "warehouse")} | dict(conf or {})
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    log = directory / f"{name}.log"
    env = {
        **env,
        "SPARK_DAEMON_MEMORY": "1g",
    }  # to the launcher the server is a daemon: spark.driver.memory doesn't count
    command = ("--class", SERVER_CLASS, *words, "spark-internal")
    with daemon(log, env, *command, program="spark-submit") as process:
        port = said(log, r"Spark Connect server started at: \S*:(\d+)", process)
        yield f"sc://127.0.0.1:{port}"
