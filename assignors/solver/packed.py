"""An assignment of a million partitions as one array: the member of each place.

Values are tuples of topic and number, as everywhere else.  ``Packed`` makes a member's tuple when it is read.  For most
members of a large group that is never.

>>> import numpy as np
>>> from sparkcohort.assignors.api import MemberSubscription
>>> from sparkcohort.assignors.solver.space import Space
>>> space = Space({"t1": 2, "t0": 3}, {"C1": MemberSubscription(("t0",)), "C0": MemberSubscription(("t0", "t1"))})
>>> Packed(space, np.array([0, 1, 1, 0, -1]))
{'C0': (('t0', 0), ('t1', 0)), 'C1': (('t0', 1), ('t0', 2))}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain

import numpy as np

from sparkcohort.assignors.api import Partition
from sparkcohort.assignors.solver.ownership import Ownership
from sparkcohort.assignors.solver.space import NO_MEMBER, Ints, Space, by_key


class Packed(Mapping[str, tuple[Partition, ...]]):
    """An assignment: by place its member's number or -1; read as a mapping of ids to sorted partitions.

    ``ownership`` is the one that it was made from, so that it is resolved once.
    """

    def __init__(self, space: Space, member: Ints, ownership: Ownership | None = None) -> None:
        self.space, self.member, self.ownership = space, member, ownership

    @cached_property
    def sorted(self) -> tuple[Ints, Ints]:
        """The assigned places by member, then ascending; and where each member's begin, and the end."""
        places, size = np.flatnonzero(self.member >= 0), len(self.space.ids)
        members = self.member[places]
        sizes = np.bincount(members, minlength=size)
        return places[by_key(members, size)], np.concatenate(([0], np.cumsum(sizes)))

    @cached_property
    def _number(self) -> dict[str, int]:
        return {member: number for number, member in enumerate(self.space.ids)}

    def __getitem__(self, member: str) -> tuple[Partition, ...]:
        places, starts = self.sorted
        number = self._number[member]
        return self.space.partitions(places[starts[number] : starts[number + 1]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.space.ids)

    def __len__(self) -> int:
        return len(self.space.ids)

    def __repr__(self) -> str:
        return repr(dict(self))


def pack(space: Space, assignment: Mapping[str, tuple[Partition, ...]]) -> Packed | None:
    """An assignment by values as one by places; None for an unknown member, an unknown partition, or one assigned twice."""
    if any(assignment[stranger] for stranger in assignment.keys() - set(space.ids)):
        return None
    member = np.full(space.places, NO_MEMBER)
    lists = [assignment.get(name, ()) for name in space.ids]
    sizes = list(map(len, lists))
    places = space.place(list(chain.from_iterable(lists)))
    if (places < 0).any():
        return None
    member[places] = np.repeat(np.arange(len(lists)), sizes)
    return Packed(space, member) if np.count_nonzero(member >= 0) == len(places) else None
