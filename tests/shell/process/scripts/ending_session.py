"""A run as in PySpark's stream runner, which ends when its standard input does, or at SIGTERM; for test_ending.

Arguments: the options as JSON, the number of the closing step before which the process sends itself SIGTERM (-1: none), and
``blocked`` where the main thread is to be in the middle of a call of C that takes a minute, ``hangs`` where a step never ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable

from confluent_kafka import Consumer

from sparkcohort.assignors import ASSIGNORS
from sparkcohort.runtime.shell.driver.session import Session
from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.shell.rpc.shutdown import Order


def say(**said: object) -> None:
    """One line for the test."""
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def watched(name: str, close: Callable[[], object], *, struck: bool) -> Callable[[], None]:
    """The step, with a signal before it if it is the one, and a line after it."""

    def run() -> None:
        if struck:
            os.kill(os.getpid(), signal.SIGTERM)
        close()
        say(closed=name)

    return run


def main() -> None:
    """Open, begin, wait, close."""
    options, step, how = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    session = Session(parse(options), ASSIGNORS)
    session.open()
    session.begin(session.commits.first.start())
    closers = sorted(session._ending._closers, key=lambda closer: closer[0])
    session._ending._closers[:] = [
        (order, watched(order.name, close, struck=number == step)) for number, (order, close) in enumerate(closers)
    ]
    if how == "hangs":
        session._ending._closers.append((Order.LOCK, lambda: threading.Event().wait()))
    say(run=session.group.endpoint.run_id, port=session.group.endpoint.port, steps=[order.name for order, _ in closers])
    if how == "blocked":
        Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}).list_topics(timeout=60)
    sys.stdin.read()
    session.close()
    say(ended="by itself")


main()
