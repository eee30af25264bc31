"""Making a changed copy of a frozen value, five times as fast as ``dataclasses.replace``.

Every record that is applied and every step of a member makes such copies; of a group with its 25 fields, most of which
stay.  ``dataclasses.replace`` goes through ``__init__``; this copies the slots as they are and sets those that change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")

_new = object.__new__
_set = object.__setattr__


def replace(value: T, /, **changes: Any) -> T:
    """A copy of ``value`` with these fields changed; ``value`` is of a frozen dataclass with slots, two at least.

    Raises AttributeError for a field that it doesn't have.  As with ``dataclasses.replace``, but for ``__post_init__``.
    """
    kind: Any = type(value)  # mypy takes a class for unhashable
    read, writers = _slots(kind)
    copy: T = _new(kind)
    for write, field in zip(writers, read(value), strict=True):
        write(copy, field)
    for name, field in changes.items():
        _set(copy, name, field)
    return copy


@cache
def _slots(kind: type) -> tuple[Callable[[Any], tuple[Any, ...]], tuple[Callable[[Any, Any], None], ...]]:
    """How to read all fields of a value at once, and how to write each."""
    names = [field.name for field in fields(kind)]
    return attrgetter(*names), tuple(getattr(kind, name).__set__ for name in names)
