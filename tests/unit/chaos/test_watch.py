"""What a campaign measures of a process."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tests.chaos.watch import threads_of


def test_threads_that_spark_has_when_an_executor_is_gone_are_no_growth() -> None:
    """They come and go with executors, and would hide, or look like, a growth of ours."""
    over, renamed = threading.Event(), threading.Event()

    def run() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("block-manager-a")
        renamed.set()
        over.wait(30)

    before = threads_of(os.getpid())
    others = [threading.Thread(target=target, daemon=True) for target in (run, lambda: over.wait(30))]
    for thread in others:
        thread.start()
    assert renamed.wait(30)
    assert threads_of(os.getpid()) == before + 1
    over.set()
    for thread in others:
        thread.join(30)
