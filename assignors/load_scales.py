"""The loads of members: which member takes a free partition, and which few moves relieve a member that carries too much.

The gain of a move is what it takes off the sum of the squares of the loads.  So the best move takes half the
difference of two members off the heavier one.  Three rules keep a constant load from moving anything twice:

* Only members above ``threshold`` times their fair share are relieved, and only towards members with clearly less.
* A partition moves only if ``threshold`` times its weight fits into the difference.  It would move back only after
  loads have changed by more than the threshold allows.
* Moves are judged by where they end.  A cooperative move takes two rounds: in the second one the partition is free,
  and goes to the member with the least load then.  So moves are placed by that rule at once.  A partition that would
  come back to its owner stays.  If the loads are no better afterwards, half as many moves are tried.

Law: after the moves no member carries more than the busiest did before, and the sum of the squares is less.  Of C0's
three busy partitions one goes to C1.  Then C0 carries 1.2 times its fair share, which is not above the threshold:

>>> from sparkcohort.assignors.solver.ownership import resolve_ownership
>>> mine, yours = (("t0", 0), ("t0", 2), ("t1", 1)), (("t0", 1), ("t1", 0), ("t1", 2))
>>> members = {m: MemberSubscription(("t0", "t1"), owned, 1) for m, owned in (("C0", mine), ("C1", yours))}
>>> weight, topics = dict.fromkeys(mine, 9) | dict.fromkeys(yours, 1), {"t0": 3, "t1": 3}
>>> scales = Scales(topics, members, resolve_ownership(topics, members), weight, {}, threshold=1.2)
>>> moves = Moves(scales)
>>> moves.relieve(most=5)
>>> scales.load, scales.fair, scales.outcome(moves.partitions)
({'C0': 27, 'C1': 3}, {'C0': 15.0, 'C1': 15.0}, {('t1', 1): 'C1'})
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from sparkcohort.assignors.api import MemberSubscription, Partition, Racks, subscribers
from sparkcohort.assignors.solver.ownership import Ownership

Loads: TypeAlias = dict[str, int]
_Holding: TypeAlias = tuple[int, bool, int, Partition]  # weight, out of its owner's rack, acquired when, which
_WEIGHT = itemgetter(0)


class Scales:
    """Members, their partitions and the weights of these, after all free partitions have been placed.

    ``crew``: by topic, its subscribers.  ``fair``: by member, its fair share.  ``load``: by member, its weight.
    """

    def __init__(
        self,
        topics: Mapping[str, int],
        members: Mapping[str, MemberSubscription],
        ownership: Ownership,
        weight: Mapping[Partition, int],
        racks: Racks,
        threshold: float,
    ) -> None:
        self._members, self.owner, self.weight = members, ownership.owner, weight
        self.threshold = threshold
        by_topic = subscribers(topics, members)
        self.crew = {topic: tuple(ids) for topic, ids in by_topic.items()}
        self._racks = racks if any(subscription.rack for subscription in members.values()) else {}
        self.owned: dict[str, list[Partition]] = {member: [] for member in sorted(members)}
        for partition, member in self.owner.items():
            self.owned[member].append(partition)
        self.load = {member: sum(map(weight.__getitem__, partitions)) for member, partitions in self.owned.items()}
        self._counts = {member: len(partitions) for member, partitions in self.owned.items()}
        crews = set[str]().union(*self.crew.values())
        self.fair = dict.fromkeys(sorted(crews), sum(weight.values()) / max(len(crews), 1))
        self._placed = self._place([p for p in weight if p not in self.owner], self.load, self._counts)

    def target(self, moves: Mapping[Partition, str]) -> dict[str, list[Partition]]:
        """By member, its partitions after these moves."""
        assignment = dict(self.owned)
        for member in {self.owner[partition] for partition in moves}:
            assignment[member] = [partition for partition in assignment[member] if partition not in moves]
        gains: dict[str, list[Partition]] = {}
        for partition, member in (*moves.items(), *self._placed.items()):
            gains.setdefault(member, []).append(partition)
        return assignment | {member: assignment[member] + partitions for member, partitions in gains.items()}

    def out_of_rack(self, partition: Partition, member: str) -> bool:
        """Whether a member is known to be in no rack that has a replica."""
        home, racks = self._members[member].rack, self._racks_of(partition)
        return bool(home and racks) and home not in racks

    def acquisition(self, partition: Partition, member: str) -> int:
        """The generation in which a member acquired a partition; -1: unknown, as for the oldest."""
        return self._members[member].since.get(partition, -1)

    def outcome(self, candidates: Sequence[Partition]) -> dict[Partition, str]:
        """The new members of these owned partitions once they are revoked, without moves that don't help."""
        worst, squares = max(self.load.values(), default=0), _sum_of_squares(self.load)
        while candidates:
            load, count = dict(self.load), dict(self._counts)
            for partition in candidates:
                load[self.owner[partition]] -= self.weight[partition]
                count[self.owner[partition]] -= 1
            new = self._place(candidates, load, count)
            moving = [partition for partition in candidates if new[partition] != self.owner[partition]]
            if len(moving) < len(candidates):
                candidates = moving
            elif _sum_of_squares(load) < squares and max(load.values()) <= worst:
                return new
            else:
                candidates = candidates[: len(candidates) // 2]
        return {}

    def _place(self, partitions: Iterable[Partition], load: Loads, count: Loads) -> dict[Partition, str]:
        """Assign partitions, the heaviest first, to the member with the least load, near a replica if that costs little."""
        assignment: dict[Partition, str] = {}
        lightest: dict[tuple[tuple[str, ...], str | None], _Lightest] = {}
        for partition in sorted(partitions, key=lambda p: (-self.weight[p], p)):
            member = self._taker(partition, load, count, lightest)
            assignment[partition] = member
            load[member] += self.weight[partition]
            count[member] += 1
        return assignment

    def _taker(
        self,
        partition: Partition,
        load: Loads,
        count: Loads,
        lightest: dict[tuple[tuple[str, ...], str | None], _Lightest],
    ) -> str:
        crew = self.crew[partition[0]]

        def least(rack: str | None) -> tuple[int, int, str] | None:
            heap = lightest.get((crew, rack))
            if heap is None:
                members = [m for m in crew if rack is None or self._members[m].rack == rack]
                heap = lightest[crew, rack] = _Lightest(members, load, count)
            return heap.find_lightest()

        first = least(None)
        assert first is not None  # noqa: S101  only partitions with a subscriber are weighed
        near = [option for rack in self._racks_of(partition) if (option := least(rack)) is not None]
        # Racks (KIP-881) may cost half of what the threshold allows, so this preference is never itself an imbalance.
        room = first[0] + (self.threshold - 1) / 2 * self.fair[first[2]]
        return min([option for option in near if option[0] <= room], default=first)[2]

    def _racks_of(self, partition: Partition) -> Collection[str]:
        replicas = self._racks.get(partition[0], ())
        return replicas[partition[1]] if partition[1] < len(replicas) else ()


class _Lightest:
    """The member with the least load.  Loads only grow meanwhile: so only the top of the heap is brought up to date."""

    def __init__(self, members: Iterable[str], load: Loads, count: Loads) -> None:
        self._load, self._counts = load, count
        self._heap = [(load[member], count[member], member) for member in members]
        heapify(self._heap)

    def find_lightest(self) -> tuple[int, int, str] | None:
        """Load, number of partitions and id."""
        while self._heap:
            top = self._heap[0]
            now = (self._load[top[2]], self._counts[top[2]], top[2])
            if now == top:
                return top
            heapreplace(self._heap, now)
        return None


class _Candidate(NamedTuple):
    """A move; ``gain`` is half of what it takes off the sum of the squares."""

    gain: int
    place: int  # among the holdings of the source for this crew
    crew: tuple[str, ...]
    source: str
    target: str


class Moves:
    """Chooses partitions to move, one after the other, by the loads after the moves so far."""

    def __init__(self, scales: Scales) -> None:
        self._scales = scales
        self._load = dict(scales.load)
        self._counts = {member: len(partitions) for member, partitions in scales.owned.items()}
        self._holdings: dict[str, dict[tuple[str, ...], list[_Holding]]] = {}
        self.partitions: list[Partition] = []

    def fill(self, newcomers: Iterable[str]) -> None:
        """Choose partitions of the busiest members that bring members without any up to their fair share."""
        scales = self._scales
        underloaded = [
            (self._load[member], member)
            for member in newcomers
            if self._load[member] * scales.threshold < scales.fair[member]
        ]
        heapify(underloaded)
        while underloaded:
            _, member = heappop(underloaded)
            if self._choose_for(member):
                heappush(underloaded, (self._load[member], member))

    def _choose_for(self, member: str) -> bool:
        """Choose one partition for a member; false if no other member has one that fits."""
        room = self._scales.fair[member] - self._load[member]
        for source in sorted(self._load, key=lambda m: (-self._load[m], m)):
            if self._load[source] <= self._load[member]:
                break
            crews = [crew for crew in self._holdings_of(source) if member in crew]
            moves = [move for crew in crews if (move := self._best_move(source, member, crew, room))]
            if moves:
                self._choose_move(max(moves))
                return True
        return False

    def relieve(self, most: int) -> None:
        """Choose at most ``most`` partitions of members above the threshold, the largest gain first."""
        for _ in range(most):
            moves = self._reliefs()
            if not moves:
                return
            self._choose_move(max(moves, key=lambda move: (move.gain, move.source, move.crew)))

    def _reliefs(self) -> list[_Candidate]:
        """For each member above the threshold and each of its crews, the best move, if there is one."""
        scales, candidates = self._scales, []
        lightest: dict[tuple[str, ...], str] = {}
        for source, load in self._load.items():
            fair = scales.fair.get(source, 0)
            if load <= scales.threshold * fair:
                continue
            for crew in self._holdings_of(source):
                if crew not in lightest:
                    lightest[crew] = min(crew, key=lambda m: (self._load[m], m))
                target = lightest[crew]
                if load - self._load[target] > (scales.threshold - 1) * fair:
                    candidates.append(self._best_move(source, target, crew))
        return [move for move in candidates if move is not None]

    def _best_move(
        self, source: str, target: str, crew: tuple[str, ...], room: float | None = None
    ) -> _Candidate | None:
        """The partition nearest to half the difference that may move; of equal ones the youngest."""
        # A member without any partition would be a newcomer in the next round, and get its fair share back.
        if self._counts[source] == 1:
            return None
        holdings, difference = self._holdings_of(source)[crew], self._load[source] - self._load[target]
        most = difference / self._scales.threshold
        most = most if room is None else min(most, room)
        last_below = bisect_right(holdings, difference / 2, key=_WEIGHT) - 1
        places = [last_below] if last_below >= 0 else []
        if last_below + 1 < len(holdings):
            places.append(bisect_right(holdings, holdings[last_below + 1][0], key=_WEIGHT) - 1)
        if room is not None:
            places += [place] if (place := bisect_right(holdings, room, key=_WEIGHT) - 1) >= 0 else []
        fits = [place for place in places if holdings[place][0] <= most]
        moves = [
            _Candidate(holdings[place][0] * (difference - holdings[place][0]), place, crew, source, target)
            for place in fits
        ]
        return max(moves, default=None)

    def _choose_move(self, move: _Candidate) -> None:
        weight, _, _, partition = self._holdings_of(move.source)[move.crew].pop(move.place)
        self._counts[move.source] -= 1
        self._load[move.source] -= weight
        self._load[move.target] += weight
        self.partitions.append(partition)

    def _holdings_of(self, source: str) -> dict[tuple[str, ...], list[_Holding]]:
        """By crew, what a member owns, the lightest first."""
        holdings = self._holdings.get(source)
        if holdings is None:
            scales, holdings = self._scales, self._holdings.setdefault(source, {})
            for partition in scales.owned[source]:
                far, acquisition = scales.out_of_rack(partition, source), scales.acquisition(partition, source)
                holdings.setdefault(scales.crew[partition[0]], []).append(
                    (scales.weight[partition], far, acquisition, partition)
                )
            for crew_holdings in holdings.values():
                crew_holdings.sort()
        return holdings


def _sum_of_squares(load: Loads) -> int:
    return sum(each * each for each in load.values())
