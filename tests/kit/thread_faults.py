"""Fails each call that the code of one thread makes, once, one after the other.

Usage::

    faults = ThreadFaults(monkeypatch, "cohort-log-ends")
    ...                                # start it, have it do all it can
    wait_until(faults.quiet, ...)      # nothing new has been called for a while
    faults.struck                      # who called what, all of it failed once

What is called is whatever a function of ours calls, in Python or in C: that of ours, threading, queue, confluent_kafka.
A lock that can't be let go of would be the test's fault, and is left out; how a value becomes text is one call.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sparkcohort.runtime.protocol import codec
from sparkcohort.runtime.shell.rpc import threads
from sparkcohort.runtime.shell.rpc.threads import Supervised

ERRORS = (RuntimeError("can't start new thread"), MemoryError(), OSError(24, "Too many open files"))
SPARED = (
    "__exit__",
    "release",
    "thread_faults",
    "_pause",
    "._on_",
    "WeakSet",
    "gc_callback",
)  # the last is Hypothesis's own
QUIET_S = 1.5


class ThreadFaults:
    """Strikes in threads of this name from now on; their pauses are short."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        """``name`` is how the thread's begins."""
        self.struck: list[tuple[str, str]] = []
        self.armed = True
        self.told: Path | None = None  # where each strike is written to
        self._last = time.monotonic()
        monkeypatch.setattr(threads, "PAUSE_S", 0.01)
        monkeypatch.setattr(threads, "MOST_PAUSE_S", 0.05)
        once_round = Supervised._round

        def struck_round(thread: Supervised) -> bool:
            if threading.current_thread().name.startswith(name):
                sys.setprofile(self._profile if self.armed else None)
            return once_round(thread)

        monkeypatch.setattr(Supervised, "_round", struck_round)

    def quiet(self) -> bool:
        """Whether nothing new has been called for a while."""
        return bool(self.struck) and time.monotonic() - self._last > QUIET_S

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            caller, called = frame.f_back, frame.f_code.co_qualname
        elif event == "c_call":
            caller, called = frame, getattr(argument, "__qualname__", str(argument))
        else:
            return
        if caller is None or any(word in called for word in SPARED):
            return
        module = str(caller.f_globals.get("__name__", ""))
        ours = module.startswith("sparkcohort.") and module not in (threads.__name__, codec.__name__)
        called_by_the_thread = module == threads.__name__ and caller.f_code.co_name == "_round"
        key = caller.f_code.co_qualname, called
        if not (ours or called_by_the_thread) or called.startswith("Supervised.") or key in self.struck:
            return
        self.struck.append(key)
        self._last = time.monotonic()
        if self.told is not None:
            with self.told.open("a") as file:
                file.write(f"{key}\n")
        raise ERRORS[len(self.struck) % len(ERRORS)]
