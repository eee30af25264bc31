"""Whether this process has threads and descriptors for another Kafka client.

librdkafka (2.16) does not survive a client for which it gets no thread: it aborts the process ("failed to create broker
thread"), or waits for a thread that never began, with the interpreter's lock.  So it is not asked to.
"""

from __future__ import annotations

import _thread
import errno
import os

THREADS = 8
"""What a client begins with: its own, and one for each of a few brokers."""
PIPES = 8


def check_room() -> None:
    """Raise OSError where threads or descriptors for another client can't be had now."""
    opened: list[int] = []
    gate = _thread.allocate_lock()
    gate.acquire()
    try:
        for _ in range(PIPES):
            opened += os.pipe()
        for _ in range(THREADS):
            _thread.start_new_thread(_pass, (gate,))
    except (RuntimeError, MemoryError, OSError) as error:
        raise OSError(
            errno.EAGAIN,
            f"no threads or file descriptors are left for it ({error}); raise the limits of this host or container",
        ) from None
    finally:
        gate.release()
        for descriptor in opened:
            os.close(descriptor)


def _pass(gate: _thread.LockType) -> None:
    with gate:
        pass
