"""The public names: all that a pipeline, a listener or an assignor imports.

Names are looked up when they are asked for, so importing a part of the package costs no more than that part.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparkcohort.assignors.api import Assignor, Load, MemberSubscription
    from sparkcohort.registration import register
    from sparkcohort.runtime.errors import CohortError, OptionError
    from sparkcohort.runtime.listener import RebalanceListener
    from sparkcohort.runtime.shell.rpc.connection_file import describe
    from sparkcohort.streaming.progress_listener import ProgressListener, offsets_behind_latest

    __version__: str

__all__ = [
    "Assignor",
    "CohortError",
    "Load",
    "MemberSubscription",
    "OptionError",
    "ProgressListener",
    "RebalanceListener",
    "__version__",
    "describe",
    "offsets_behind_latest",
    "register",
]

_ROOMS = {
    "Assignor": "assignors.api",
    "CohortError": "runtime.errors",
    "Load": "assignors.api",
    "MemberSubscription": "assignors.api",
    "OptionError": "runtime.errors",
    "ProgressListener": "streaming.progress_listener",
    "RebalanceListener": "runtime.listener",
    "describe": "runtime.shell.rpc.connection_file",
    "offsets_behind_latest": "streaming.progress_listener",
    "register": "registration",
}


def __getattr__(name: str) -> Any:
    """What a module has that isn't imported yet (PEP 562)."""
    if name == "__version__":
        value: object = import_module("importlib.metadata").version(__name__)
    elif name in _ROOMS:
        value = getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, for completion in a notebook."""
    return sorted(__all__)
