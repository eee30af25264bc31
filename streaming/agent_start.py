"""Starting the agent of an executor: after the task's rows, and with growing pauses where agents end at once.

An agent's imports take half a second of a core.  After the rows that time is free: Spark writes its logs and plans the next
batch.
"""

from __future__ import annotations

import time

from sparkcohort.runtime.shell.agent.agent_config import AgentConfig, encode_config
from sparkcohort.runtime.shell.options.source_options import LOAD_BALANCED, SourceOptions
from sparkcohort.runtime.shell.rpc.endpoint import Run
from sparkcohort.runtime.shell.rpc.executor import Executor, agent_answers, start_agent
from sparkcohort.streaming.pyfiles import has_own_provider, pyfile_paths

DOOMED = 3
"""After so many starts without an answer the driver is told that the executor can have no agent."""
MOST_BETWEEN_S = 60.0
"""The longest pause between two starts; they begin at 1 s and double.  Each start costs a second of CPU."""

FORGOTTEN_S = 3 * MOST_BETWEEN_S
"""An agent that none had to take the place of for so long was well: the next missing one is started without a pause."""

ANY_EXECUTOR = Executor(0, 0, "", "", 1)

_starts: dict[str, tuple[int, float]] = {}
"""By address: starts by this worker in a row, and the earliest time of the next start (``time.monotonic``)."""


def agent_config(
    options: SourceOptions, run: Run, host: str, executor: Executor = ANY_EXECUTOR, address: str = ""
) -> AgentConfig:
    """The configuration of a member of this run; without an executor for ``launch``, which finds it."""
    return AgentConfig(
        address=address,
        executor=executor,
        host=host,
        port=run.port,
        credentials=run.credentials,
        kafka=options.kafka,
        columns=options.columns,
        fail_on_data_loss=options.fail_on_data_loss,
        poll_timeout_ms=options.poll_timeout_ms,
        buffer_bytes=options.buffer_bytes,
        session_timeout_ms=options.session_timeout_ms,
        heartbeat_interval_ms=options.heartbeat_interval_ms,
        rebalance_timeout_ms=options.rebalance_timeout_ms,
        assignors=run.assignors,
        rack=options.client_rack,
        rack_env=options.client_rack_env,
        listener=options.rebalance_listener,
        group_id=options.group_id,
        load_window_ms=options.load_balance_after_ms if LOAD_BALANCED in run.assignors else 0,
    )


def ensure_agent(options: SourceOptions, run: Run, host: str, executor: Executor, address: str) -> str:
    """Start this executor's agent, or a member of this run in it, without waiting.  Returns why it can't start, or ""."""
    if agent_answers(address):
        return ""
    (starts, due_s), now_s = _starts.get(address, (0, 0.0)), time.monotonic()
    starts = 0 if now_s > due_s + FORGOTTEN_S else starts
    reason = "its agent ends whenever it is started: see the executor's stderr" if starts >= DOOMED else ""
    if now_s < due_s:
        return reason
    config = agent_config(options, run, host, executor, address)
    name, paths = (address, pyfile_paths()) if has_own_modules(options) else (executor.agent_name(), ())
    try:
        if not start_agent(name, address, executor, encode_config(config), paths):
            return reason
    except OSError as error:
        reason = f"its agent can't be started: {error}"
    _starts[address] = starts + 1, now_s + min(2.0**starts, MOST_BETWEEN_S)
    return reason


def has_own_modules(options: SourceOptions) -> bool:
    """Whether a listener or token provider is the user's code with the user's modules: such a query gets an agent of its own."""
    return bool(options.rebalance_listener) or has_own_provider(options.kafka)
