"""Starts the agent of the executor whose JVM has started this process, as a Python task would, and ends.

``python -m …launch ADDRESS HOST CPUS``: the member's address, the driver's host, and the cores that a task takes.  The
configuration comes through standard input, since it has secrets, and knows of no executor yet.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from sparkcohort.runtime.shell.agent.agent_config import MalformedConfig, decode_config, encode_config
from sparkcohort.runtime.shell.rpc.executor import NoExecutor, find_executor, start_agent


def main() -> None:
    """Raises SystemExit with the reason where the agent can't be started."""
    address, host, cpus = sys.argv[1:]
    try:
        executor, config = find_executor(), decode_config(sys.stdin.buffer.read())
        rack = os.environ.get(config.rack_env, "").strip()
        config = replace(
            config,
            address=address,
            executor=executor.with_task_cpus(int(cpus)),
            host=config.host or host,
            rack=rack or config.rack,
            kafka={**config.kafka, "client.rack": rack} if rack else config.kafka,
        )
        start_agent(executor.agent_name(), address, executor, encode_config(config))
    except (NoExecutor, MalformedConfig, OSError) as error:
        sys.exit(f"this executor's agent can't be started: {error}")


if __name__ == "__main__":
    main()
