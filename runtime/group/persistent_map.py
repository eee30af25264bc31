"""A mapping of which one value after another changes, kept so that a change does not copy all of it.

Each heartbeat is a new group in which one session's deadline differs.  Copying a thousand deadlines for that touches a
thousand objects, and is most of what a heartbeat costs in a large group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

V = TypeVar("V")

MOST_RECENT: Final = 32
"""Changes that are laid over the base before the two become a new base."""


class Layered(Mapping[str, V], Generic[V]):
    """An immutable mapping: ``base`` with ``recent`` laid over it; in the order of the keys' arrival, as a dict."""

    __slots__ = ("_base", "_recent", "_size")

    def __init__(self, base: Mapping[str, V], recent: Mapping[str, V], size: int) -> None:
        """Use ``with_value``; ``size`` is the number of keys of the two."""
        self._base = base
        self._recent = recent
        self._size = size

    def __getitem__(self, key: str) -> V:
        return self._recent[key] if key in self._recent else self._base[key]

    def __contains__(self, key: object) -> bool:
        return key in self._recent or key in self._base

    def __iter__(self) -> Iterator[str]:
        yield from self._base
        yield from (key for key in self._recent if key not in self._base)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return repr(self.flat())

    def with_value(self, key: str, value: V) -> Layered[V]:
        """A copy in which ``key`` has this value."""
        base, recent = (self._base, self._recent) if len(self._recent) < MOST_RECENT else (self.flat(), {})
        return Layered(base, {**recent, key: value}, self._size + (key not in self))

    def flat(self) -> dict[str, V]:
        """The same as a dict."""
        return {**self._base, **self._recent}


def with_value(mapping: Mapping[str, V], key: str, value: V) -> Layered[V]:
    """A copy of any mapping in which ``key`` has this value."""
    layered = mapping if isinstance(mapping, Layered) else Layered(mapping, {}, len(mapping))
    return layered.with_value(key, value)
