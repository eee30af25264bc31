"""Members as scales: who carries how much, who takes what is free, and which few moves relieve who carries too much.

A move is worth what it takes off the squares of the loads, so the best one takes half the difference of two members
off the heavier one.  Three rules keep a steady load from moving anything twice:

* Relief is for members above ``threshold`` times their fair share only, towards such as have clearly less.
* A partition moves only if ``threshold`` times its weight fits into the difference: to pay for the way back, loads
  would have to change by more than the threshold allows.
* What is decided is what comes of it: a cooperative move takes two rounds, and in the second a free partition goes to
  who carries least, whoever was meant.  So the chosen are placed by that rule at once; who would come home again stays,
  and if all isn't better afterwards, fewer are tried.

Law: after what is chosen nobody carries more than the busiest did, and the sum of the squares is less.  Of C0's three
busy partitions one goes to C1; then C0 carries 1.2 times its fair share, which is not above the threshold:

>>> from sparkcohort.assignors.solver.ownership import resolve
>>> mine, yours = (("t0", 0), ("t0", 2), ("t1", 1)), (("t0", 1), ("t1", 0), ("t1", 2))
>>> members = {m: MemberSubscription(("t0", "t1"), owned, 1) for m, owned in (("C0", mine), ("C1", yours))}
>>> weight, topics = dict.fromkeys(mine, 9) | dict.fromkeys(yours, 1), {"t0": 3, "t1": 3}
>>> scales = Scales(topics, members, resolve(topics, members), weight, {}, threshold=1.2)
>>> moves = Moves(scales)
>>> moves.relieve(most=5)
>>> scales.load, scales.fair, scales.outcome(moves.chosen)
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
_Book: TypeAlias = tuple[int, bool, int, Partition]  # weight, out of its owner's rack, acquired when, which
_WEIGHT = itemgetter(0)


class Scales:
    """Members, what they hold and what it weighs, after what is free has been placed."""

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
        wanted_by = subscribers(topics, members)
        self.crew = {topic: tuple(who) for topic, who in wanted_by.items()}
        self._racks = racks if any(said.rack for said in members.values()) else {}
        self.owned: dict[str, list[Partition]] = {member: [] for member in sorted(members)}
        for partition, member in self.owner.items():
            self.owned[member].append(partition)
        self.load = {member: sum(map(weight.__getitem__, mine)) for member, mine in self.owned.items()}
        self._count = {member: len(mine) for member, mine in self.owned.items()}
        self.fair = self._fair_shares()
        self._placed = self._place([p for p in weight if p not in self.owner], self.load, self._count)

    def _fair_shares(self) -> dict[str, float]:
        """The mean load of each member and all it shares topics with, directly or through others; ``load`` has no say."""
        total = dict.fromkeys(self.crew, 0)
        for (topic, _), weight in self.weight.items():
            total[topic] += weight
        fair: dict[str, float] = {}
        for who, topics in _companies(self.crew):
            fair.update(dict.fromkeys(who, sum(total[topic] for topic in topics) / len(who)))
        return fair

    def target(self, moved: Mapping[Partition, str]) -> dict[str, list[Partition]]:
        """What everybody has after these moves."""
        held = dict(self.owned)
        for member in {self.owner[partition] for partition in moved}:
            held[member] = [partition for partition in held[member] if partition not in moved]
        more: dict[str, list[Partition]] = {}
        for partition, member in (*moved.items(), *self._placed.items()):
            more.setdefault(member, []).append(partition)
        return held | {member: held[member] + partitions for member, partitions in more.items()}

    def out_of_rack(self, partition: Partition, member: str) -> bool:
        """Whether a member is known to be in no rack that has a replica."""
        mine, where = self._members[member].rack, self._where(partition)
        return bool(mine and where) and mine not in where

    def since(self, partition: Partition, member: str) -> int:
        """When a member acquired a partition; -1 if nobody knows, as for the oldest."""
        return self._members[member].since.get(partition, -1)

    def outcome(self, chosen: Sequence[Partition]) -> dict[Partition, str]:
        """Where owned partitions go once their owners have let go of them; those whose move wouldn't help left out."""
        worst, squares = max(self.load.values(), default=0), _squares(self.load)
        while chosen:
            load, count = dict(self.load), dict(self._count)
            for partition in chosen:
                load[self.owner[partition]] -= self.weight[partition]
                count[self.owner[partition]] -= 1
            new = self._place(chosen, load, count)
            away = [partition for partition in chosen if new[partition] != self.owner[partition]]
            if len(away) < len(chosen):
                chosen = away
            elif _squares(load) < squares and max(load.values()) <= worst:
                return new
            else:
                chosen = chosen[: len(chosen) // 2]
        return {}

    def _place(self, partitions: Iterable[Partition], load: Loads, count: Loads) -> dict[Partition, str]:
        """Give partitions, the heaviest first, to who carries least, near a replica if that costs little."""
        given: dict[Partition, str] = {}
        lightest: dict[tuple[tuple[str, ...], str | None], _Lightest] = {}
        for partition in sorted(partitions, key=lambda p: (-self.weight[p], p)):
            member = self._taker(partition, load, count, lightest)
            given[partition] = member
            load[member] += self.weight[partition]
            count[member] += 1
        return given

    def _taker(
        self,
        partition: Partition,
        load: Loads,
        count: Loads,
        lightest: dict[tuple[tuple[str, ...], str | None], _Lightest],
    ) -> str:
        crew = self.crew[partition[0]]

        def least(rack: str | None) -> tuple[int, int, str] | None:
            found = lightest.get((crew, rack))
            if found is None:
                who = [m for m in crew if rack is None or self._members[m].rack == rack]
                found = lightest[crew, rack] = _Lightest(who, load, count)
            return found.look()

        first = least(None)
        assert first is not None  # noqa: S101  only partitions that somebody wants are weighed
        near = [found for rack in self._where(partition) if (found := least(rack)) is not None]
        # Half of what the threshold allows is for racks: so a preference for them is never itself an imbalance.
        room = first[0] + (self.threshold - 1) / 2 * self.fair[first[2]]
        return min([found for found in near if found[0] <= room], default=first)[2]

    def _where(self, partition: Partition) -> Collection[str]:
        replicas = self._racks.get(partition[0], ())
        return replicas[partition[1]] if partition[1] < len(replicas) else ()


class _Lightest:
    """Who of some members carries least, while loads only grow: a heap whose top is brought up to date when looked at."""

    def __init__(self, who: Iterable[str], load: Loads, count: Loads) -> None:
        self._load, self._count = load, count
        self._heap = [(load[member], count[member], member) for member in who]
        heapify(self._heap)

    def look(self) -> tuple[int, int, str] | None:
        """Load, number of partitions and id."""
        while self._heap:
            top = self._heap[0]
            now = (self._load[top[2]], self._count[top[2]], top[2])
            if now == top:
                return top
            heapreplace(self._heap, now)
        return None


class _Candidate(NamedTuple):
    """``gain`` is half of what it takes off the squares."""

    gain: int
    place: int  # on the shelf of the topic's crew
    crew: tuple[str, ...]
    source: str
    target: str


class Moves:
    """Chooses partitions to move, one after the other, seeing the loads as they will be."""

    def __init__(self, scales: Scales) -> None:
        self._scales = scales
        self._load = dict(scales.load)
        self._left = {member: len(mine) for member, mine in scales.owned.items()}
        self._shelves: dict[str, dict[tuple[str, ...], list[_Book]]] = {}
        self.chosen: list[Partition] = []

    def fill(self, newcomers: Iterable[str]) -> None:
        """Choose what brings those who own nothing up to their fair share, from who carries most."""
        scales = self._scales
        hungry = [
            (self._load[member], member)
            for member in newcomers
            if self._load[member] * scales.threshold < scales.fair[member]
        ]
        heapify(hungry)
        while hungry:
            _, member = heappop(hungry)
            if self._feed(member):
                heappush(hungry, (self._load[member], member))

    def _feed(self, member: str) -> bool:
        """Choose one partition for a member; false when nobody has one that fits."""
        room = self._scales.fair[member] - self._load[member]
        for source in sorted(self._load, key=lambda m: (-self._load[m], m)):
            if self._load[source] <= self._load[member]:
                break
            crews = [crew for crew in self._shelf(source) if member in crew]
            moves = [move for crew in crews if (move := self._best(source, member, crew, room))]
            if moves:
                self._choose(max(moves))
                return True
        return False

    def relieve(self, most: int) -> None:
        """Choose at most so many for the sake of members above the threshold, the largest gain first."""
        for _ in range(most):
            moves = self._reliefs()
            if not moves:
                return
            self._choose(max(moves, key=lambda move: (move.gain, move.source, move.crew)))

    def _reliefs(self) -> list[_Candidate]:
        """The best move from each member that carries too much and each of its crews, if there is one."""
        scales, found = self._scales, []
        lightest: dict[tuple[str, ...], str] = {}
        for source, load in self._load.items():
            fair = scales.fair.get(source, 0)
            if load <= scales.threshold * fair:
                continue
            for crew in self._shelf(source):
                if crew not in lightest:
                    lightest[crew] = min(crew, key=lambda m: (self._load[m], m))
                target = lightest[crew]
                if load - self._load[target] > (scales.threshold - 1) * fair:
                    found.append(self._best(source, target, crew))
        return [move for move in found if move is not None]

    def _best(self, source: str, target: str, crew: tuple[str, ...], room: float | None = None) -> _Candidate | None:
        """The partition nearest to half the difference that is allowed to move, of equals what was acquired last.

        Never a member's last one: with nothing left it would come as a newcomer in the round that hands over.
        """
        if self._left[source] == 1:
            return None
        shelf, difference = self._shelf(source)[crew], self._load[source] - self._load[target]
        most = difference / self._scales.threshold
        most = most if room is None else min(most, room)
        below = bisect_right(shelf, difference / 2, key=_WEIGHT) - 1
        places = [below] if below >= 0 else []
        if below + 1 < len(shelf):
            places.append(bisect_right(shelf, shelf[below + 1][0], key=_WEIGHT) - 1)
        if room is not None:
            places += [place] if (place := bisect_right(shelf, room, key=_WEIGHT) - 1) >= 0 else []
        fits = [place for place in places if shelf[place][0] <= most]
        moves = [_Candidate(shelf[at][0] * (difference - shelf[at][0]), at, crew, source, target) for at in fits]
        return max(moves, default=None)

    def _choose(self, move: _Candidate) -> None:
        weight, _, _, partition = self._shelf(move.source)[move.crew].pop(move.place)
        self._left[move.source] -= 1
        self._load[move.source] -= weight
        self._load[move.target] += weight
        self.chosen.append(partition)

    def _shelf(self, source: str) -> dict[tuple[str, ...], list[_Book]]:
        """What a member owns, by the members that want it, the lightest first."""
        shelf = self._shelves.get(source)
        if shelf is None:
            scales, shelf = self._scales, self._shelves.setdefault(source, {})
            for partition in scales.owned[source]:
                out, since = scales.out_of_rack(partition, source), scales.since(partition, source)
                shelf.setdefault(scales.crew[partition[0]], []).append(
                    (scales.weight[partition], out, since, partition)
                )
            for books in shelf.values():
                books.sort()
        return shelf


def _companies(crew: Mapping[str, tuple[str, ...]]) -> list[tuple[list[str], list[str]]]:
    """Members and topics that hang together: whatever is read by one is in reach of the others."""
    found: list[tuple[set[str], list[str]]] = []
    for who, topics in _by_crew(crew).items():
        met = [company for company in found if not company[0].isdisjoint(who)]
        found = [company for company in found if company not in met]
        found.append(({*who, *(m for c in met for m in c[0])}, [*topics, *(t for c in met for t in c[1])]))
    return [(sorted(who), topics) for who, topics in found]


def _by_crew(crew: Mapping[str, tuple[str, ...]]) -> dict[tuple[str, ...], list[str]]:
    topics: dict[tuple[str, ...], list[str]] = {}
    for topic, who in crew.items():
        topics.setdefault(who, []).append(topic)
    return topics


def _squares(load: Loads) -> int:
    return sum(each * each for each in load.values())
