"""The user's rebalance listener: found by its dotted name, called in a thread of its own, timed, and never waited for too long.

All of the user's code (the import, the constructor, the calls) runs in that thread.  A call that blocks holds up later
calls, not the member: the revocation goes on without it when its time is over.  Only native code that never releases
Python's lock could stop a member, and the group then removes it after its session timeout.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.listener import LISTENER_EVENTS
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.shell.rpc.threads import in_context

log = logging.getLogger("sparkcohort.listener")

OPTION = "rebalance.listener"
MARGIN_MS = 5_000
_CREATED, _ASSIGNED, _REVOKED, _LOST = LISTENER_EVENTS


def patience_ms(rebalance_timeout_ms: int) -> int:
    """How long a listener may take over a revocation: the rebalance timeout less what the rejoin needs, 5 s or a fifth."""
    return rebalance_timeout_ms - min(MARGIN_MS, rebalance_timeout_ms // 5)


def find_object(name: str) -> Any:
    """The class or object of a dotted name (``package.module.Class``, ``package.module:object``); whatever its import raises."""
    module, _, path = name.partition(":") if ":" in name else name.rpartition(".")
    return reduce(getattr, path.split("."), importlib.import_module(module))


def check_listener(name: str) -> None:
    """Raise OptionError unless the listener can be imported here and looks like one; nothing is created."""
    try:
        listener = find_object(name)
    except Exception as error:  # noqa: BLE001  the user's module may raise anything
        raise OptionError(
            f"option {OPTION}={name!r} cannot be imported on the driver ({type(error).__name__}: {error}); write it as "
            "package.module.Class or package.module:object, and ship its file with --py-files, or install it where "
            "driver and executors run"
        ) from None
    if not any(callable(getattr(listener, _method(event), None)) for event in (_ASSIGNED, _REVOKED, _LOST)):
        raise OptionError(
            f"option {OPTION}={name!r} has none of the methods {_method(_ASSIGNED)}, {_method(_REVOKED)}, {_method(_LOST)} "
            "(see sparkcohort.runtime.listener.RebalanceListener)"
        )
    if inspect.isclass(listener) and not _takes_nothing(listener):
        raise OptionError(
            f"option {OPTION}={name!r}: the class is created without arguments, and its constructor wants some"
        )


def _takes_nothing(listener: type) -> bool:
    try:
        inspect.signature(listener).bind()
    except TypeError:
        return False
    except ValueError:  # a class that doesn't tell
        return True
    return True


def _method(event: str) -> str:
    return f"on_partitions_{event}"


@dataclass(slots=True, eq=False)
class _ListenerCall:
    """One call to be made; ``done`` is called once, when it has ended or its time is over."""

    event: str
    partitions: tuple[tuple[str, int], ...] = ()
    done: Callable[[], None] = lambda: None
    is_acknowledged: bool = False

    def __str__(self) -> str:
        count = len(self.partitions)
        return f"{_method(self.event)} of {count} partition{'s' if count != 1 else ''}" if count else "its creation"


class ListenerRunner:
    """Calls one listener, in order; each call's end is a line in the log.

    ``patience_ms`` is how long a revocation waits for its call, those before it included.  While a call has overrun it,
    revocations don't wait at all.
    """

    def __init__(self, name: str, patience_ms: int) -> None:
        self._name, self._patience_ms = name, patience_ms
        self._pool = ThreadPoolExecutor(1, "cohort-listener")
        self._lock = threading.Lock()
        self._is_stuck = False
        self._listener: Any = None
        self._submit(_ListenerCall(_CREATED))

    # --- from the agent -----------------------------------------------------------------------------

    def call_assigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Call it with new partitions, without waiting."""
        self._submit(_ListenerCall(_ASSIGNED, _plain(partitions)))

    def call_lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Call it with lost partitions, without waiting."""
        self._submit(_ListenerCall(_LOST, _plain(partitions)))

    def call_revoked(self, partitions: Iterable[TopicPartition], done: Callable[[], None]) -> None:
        """Call it with partitions to be revoked; ``done`` is called, from some thread, when the member may go on."""
        call = _ListenerCall(_REVOKED, _plain(partitions), done)
        if self._is_stuck:
            self._overrun(call, 0)
        else:
            timer = threading.Timer(self._patience_ms / 1000, in_context(self._overrun, call, self._patience_ms))
            timer.daemon = True
            timer.start()
        self._submit(call)

    def close(self, partitions: Iterable[TopicPartition], patience_s: float, *, are_lost: bool) -> None:
        """Call it with the partitions of a member that ends; waits for this call and those before it, ``patience_s`` at most."""
        done = threading.Event()
        self._submit(_ListenerCall(_LOST if are_lost else _REVOKED, _plain(partitions), done.set))
        done.wait(patience_s)

    def _submit(self, call: _ListenerCall) -> None:
        self._pool.submit(in_context(self._run, call))

    def _overrun(self, call: _ListenerCall, waited_ms: int) -> None:
        self._acknowledge(call, stuck=True, warning=f"after {waited_ms} ms; the member goes on without it")

    def _acknowledge(self, call: _ListenerCall, *, stuck: bool, warning: str = "") -> None:
        """Let the member go on if it is still waiting; why without the listener stands in the log by then."""
        with self._lock:
            first, call.is_acknowledged = not call.is_acknowledged, True
            if first or not stuck:
                self._is_stuck = stuck
        if first:
            if warning:
                log.warning("listener %s: not done with %s %s", self._name, call, warning)
            call.done()

    # --- the listener's thread ------------------------------------------------------------------------

    def _run(self, call: _ListenerCall) -> None:
        if call.event == _CREATED:
            self._listener = self._timed(call, self._create)
            return
        method = _called(self._listener, call.event) if call.partitions else None
        if method is None:
            self._acknowledge(call, stuck=False)
        else:
            self._timed(call, partial(method, call.partitions))

    def _create(self) -> Any:
        listener = find_object(self._name)
        return listener() if inspect.isclass(listener) else listener

    def _timed(self, call: _ListenerCall, function: Callable[[], Any]) -> Any:
        """What the user's code returns; None where it raised."""
        began, outcome, returned = time.monotonic(), "returned", None
        try:
            returned = function()
        except BaseException:  # the member goes on, whatever the user's code raises
            outcome = "raised"
            log.exception("listener %s: %s raised", self._name, call)
        took_ms = int((time.monotonic() - began) * 1000)
        log.info("listener %s: %s %s after %d ms", self._name, call, outcome, took_ms)
        self._acknowledge(call, stuck=False)
        return returned


def _called(listener: Any, event: str) -> Callable[..., Any] | None:
    """The listener's method for an event; what is lost counts as revoked where it has none for it (as Kafka's does)."""
    method = getattr(listener, _method(event), None)
    if method is None and event == _LOST:
        method = getattr(listener, _method(_REVOKED), None)
    return method


def _plain(partitions: Iterable[TopicPartition]) -> tuple[tuple[str, int], ...]:
    return tuple((tp.topic, tp.partition) for tp in sorted(partitions))
