"""A fault inside a member agent, at a place that no signal from outside can hit; see ``tests.kit.faults``.

With COHORT_OVERWRITE, memory that a task has given back is overwritten.

On the executors' PYTHONPATH this runs when any Python starts there, and does nothing unless that Python is an agent.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

AGENT = b"\0sparkcohort.runtime.shell.agent.agent\0"
STOPPED_S = 0.2  # a process of several threads goes on for a moment after it was told to stop


def fail(directory: Path) -> None:
    """Fail here if there is a fault: a file with a signal's name, which the first agent that comes by takes away."""
    fault = directory / "fault"
    try:
        what = fault.read_text()
        fault.rename(directory / f"fault.{os.getpid()}")
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.Signals[what])
    threading.Event().wait(STOPPED_S)


def install(directory: Path) -> None:
    """Put the place into the agent's code."""
    from sparkcohort.runtime.shell.agent import task_frames, task_server

    send_whole = task_server._send
    batches: WeakKeyDictionary[socket.socket, int] = WeakKeyDictionary()  # sent of the answer at hand, by connection

    def send(connection: socket.socket, kind: int, body: Any = b"") -> None:
        of_rows = kind in {task_frames.FRAME_BATCH, task_frames.FRAME_SHARED_STEP}
        batches[connection] = 0 if kind == task_frames.FRAME_END else batches.get(connection, 0) + of_rows
        if of_rows and batches[connection] == 2:
            view = memoryview(body)
            connection.sendall(task_frames.FRAME.pack(kind, view.nbytes))
            connection.sendall(view[: view.nbytes // 2])
            fail(directory)
            connection.sendall(view[view.nbytes // 2 :])
        else:
            send_whole(connection, kind, body)

    task_server._send = send


def overwrite_returned_buffers() -> None:
    """Write 0xFF over each buffer that comes back: who still reads it reads what no record has."""
    from sparkcohort.runtime.shell.agent.shared_memory import BufferProducer

    take_back = BufferProducer.take_back

    def overwrite_and_take(self: BufferProducer, numbers: bytes) -> None:
        take_back(self, numbers)
        for number in numbers:
            memory = self._buffers[number].memory
            memoryview(memory).cast("B")[:] = b"\xff" * memory.size

    BufferProducer.take_back = overwrite_and_take  # type: ignore[method-assign]


if "COHORT_OVERWRITE" in os.environ and AGENT in Path("/proc/self/cmdline").read_bytes():
    overwrite_returned_buffers()
if "COHORT_FAULTS" in os.environ and AGENT in Path("/proc/self/cmdline").read_bytes():
    install(Path(os.environ["COHORT_FAULTS"]))
