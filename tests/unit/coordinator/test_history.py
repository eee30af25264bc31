"""What a coordinator run remembers: its rebalances and how they ended, its journal, and what it says of it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import records as r
from sparkcohort.runtime.group.state import Group
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import requested
from sparkcohort.runtime.shell.coordinator import reports
from sparkcohort.runtime.shell.coordinator.history import HISTORY, JOURNAL, History

LIMIT_MS = 1_000
NAMES = {"m1": ("1", "h1"), "m2": ("2", "h2"), "m3": ("3", "h3")}


class Desk:
    """A group, its history, and members that ask by hand; the time of day is 1000 s and the group's own time."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.group = g.new_group(g.GroupConfig("billing"))
        self.history = History(lambda: 1_000 + self.now_ms / 1_000)

    def step(self, event: p.Event) -> tuple[p.Action, ...]:
        """One step, as the coordinator does it."""
        decision = g.step(self.group, event, self.now_ms)
        self.group = decision.group
        self.history.add_step(self.group, decision.records, self.now_ms)
        for action in decision.actions:
            if isinstance(action, p.Rebalanced):
                self.history.rebalanced(action, {})
        return decision.actions

    def join(self, client_id: str) -> str:
        """A newcomer's join; its id."""
        said = {"session_timeout_ms": 2 * LIMIT_MS, "rebalance_timeout_ms": LIMIT_MS}
        join = p.JoinGroup("", client_id, client_id, "host", protocols=("range",), **said)  # type: ignore[arg-type]
        self.step(p.Received(1, join))
        return self.group.instances[client_id]

    def sync(self, member_id: str) -> None:
        """A sync without assignments."""
        self.step(p.Received(2, p.SyncGroup(member_id, member_id.partition("-")[0], self.group.generation)))


def done(generation: int, before: dict[str, Any], after: dict[str, Any], reason: str = "") -> p.Rebalanced:
    """A rebalance of the topic t; partitions by number."""

    def of(held: dict[str, Any]) -> dict[str, tuple[TopicPartition, ...]]:
        return {name: tuple(TopicPartition("t", n) for n in numbers) for name, numbers in held.items()}

    return p.Rebalanced(generation, requested(reason), 100, 112, "range", ("driver", *after), of(before), of(after))


def named(history: History) -> History:
    """The history, told who its members are."""
    for member_id, (executor, host) in NAMES.items():
        history.name_member(member_id, executor, host)
    return history


def test_a_rebalance_that_ends_is_ok() -> None:
    """The first member's join, its sync, and nothing left to do."""
    desk = Desk()
    desk.sync(desk.join("a"))
    (entry,) = desk.history.entries()
    assert (entry.done.generation, entry.result, entry.ended_at) == (1, "ok", 1_000.0)


def test_a_member_that_did_not_sync_in_time_is_named_by_the_next_rebalance() -> None:
    """A generation without an assignment has no entry; who was to blame is in that of the next one."""
    desk = Desk()
    member_id = desk.join("a")
    desk.now_ms = LIMIT_MS
    desk.step(p.Tick())
    assert desk.history.entries() == ()
    desk.sync(desk.join("b"))
    (entry,) = desk.history.entries()
    assert entry.removed == ((member_id, "it did not sync within the rebalance timeout"),)


def test_an_assignor_that_failed_is_in_the_result_of_its_generation_only() -> None:
    """And a round after which something is still to be given up says so."""
    history = History()
    history.assignor_failed(7, "assignor range: ValueError: no")
    history.rebalanced(done(7, {}, {"m1": [0]}), {})
    history.rebalanced(done(8, {}, {"m1": [0]}), {TopicPartition("t", 0): "m1"})
    history.rebalanced(done(9, {}, {"m1": [0]}), {})
    results = [entry.result for entry in history.entries()]
    assert results == ["failed: assignor range: ValueError: no", "follow-up round due", "ok"]


def test_everything_is_bounded() -> None:
    """Signs of life and commits leave nothing; records and rebalances only the last so many."""
    group, history = Desk().group, History()
    for number in range(JOURNAL + 10):
        history.add_step(
            group, (r.SessionRenewed("m0", number), r.OffsetsCommitted(()), r.JoinParked(f"m{number}", 0)), 0
        )
    for number in range(HISTORY + 5):
        history.rebalanced(done(number, {}, {}), {})
    assert len(history.member_ids()) == JOURNAL
    assert (len(history.entries()), history.entries()[0].done.generation) == (HISTORY, 5)


def test_one_rebalance_is_shown_member_by_member() -> None:
    """Kept, gained from whom, lost to whom; a member that is gone has its row too."""
    history = named(History())
    history.rebalanced(done(7, {"m1": [0, 1], "m3": [2]}, {"m1": [0], "m2": [1, 2]}, "m3 expired"), {})
    shown = reports.rebalance_details(history, 7)
    assert (shown["reason"], shown["moved"], shown["revoked"], shown["members"]) == ("executor-3 expired", 2, 0, 2)
    rows = {row["client_id"]: row for row in shown["assignments"]}
    assert list(rows) == ["executor-1", "executor-2", "executor-3"]
    assert rows["executor-1"]["kept"] == [{"topic": "t", "partition": 0}]
    assert rows["executor-1"]["lost"] == [{"topic": "t", "partition": 1, "to": "executor-2"}]
    assert [(tp["partition"], tp["from"]) for tp in rows["executor-2"]["gained"]] == [
        (1, "executor-1"),
        (2, "executor-3"),
    ]
    assert (rows["executor-3"]["present"], rows["executor-3"]["after"]) == (False, [])
    assert reports.rebalance_details(history, -1) == shown
    for unknown in (6, -2, 0):
        assert reports.rebalance_details(history, unknown) == {"known": [7]}


def test_a_story_is_found_by_either_name() -> None:
    """By member id, or by client id: the latest of that name; anybody else gets the names there are."""
    desk = Desk()
    member_id = desk.join("a")
    desk.history.name_member(member_id, "4", "h")
    for who in (member_id, "executor-4"):
        told = reports.member_timeline(desk.history, who)
        assert told["member_id"] == member_id
        assert [line["what"] for line in told["lines"]][:2] == ["became a member, from host", "joined"]
        assert told["lines"][0]["at"] == 1_000.0
    assert reports.member_timeline(desk.history, "executor-5") == {"known": [[member_id, "executor-4"]]}


def test_a_status_tells_who_had_what_of_the_last_few_only() -> None:
    """What moved is told of all: every scrape of the metrics makes a status, and partitions may be many."""
    history, held = History(), {"m1": [0], "m2": [1]}
    for generation in range(2 * reports.DETAILED):
        turned = {"m1": held["m2"], "m2": held["m1"]}
        history.rebalanced(done(generation, held, turned), {})
        held = turned
    told = reports.history(history.entries())
    assert [len(entry["moved"]) for entry in told] == [2] * 2 * reports.DETAILED
    assert [bool(entry["after"]) for entry in told] == [False] * reports.DETAILED + [True] * reports.DETAILED
    assert told[-1]["after"] == {"m1": [["t", 0]], "m2": [["t", 1]]}


def test_a_partition_moves_when_its_new_owner_gets_it() -> None:
    """Given up in one round, assigned in the next: moved there, and told from whom; back to the same member: not moved."""
    history = named(History())
    history.rebalanced(done(1, {}, {"m1": [0, 1, 2]}), {})
    history.rebalanced(done(2, {"m1": [0, 1, 2]}, {"m1": [0]}), {})
    history.rebalanced(done(3, {"m1": [0]}, {"m1": [0, 1], "m2": [2]}), {})
    assert [[tp.partition for tp in entry.moved] for entry in history.entries()] == [[], [], [2]]
    assert [row["moved"] for row in reports.rebalances(history, 3)] == [0, 0, 1]
    rows = {row["client_id"]: row for row in reports.rebalance_details(history, 3)["assignments"]}
    assert rows["executor-2"]["gained"] == [{"topic": "t", "partition": 2, "from": "executor-1"}]


def test_a_static_member_that_came_back_is_the_same_owner() -> None:
    """What its predecessor had and nobody has does not move when the successor gets it (KIP-345)."""
    desk, history = Desk(), History()
    history.rebalanced(done(1, {}, {"m1": [0]}), {})
    history.rebalanced(done(2, {"m1": [0]}, {}), {})
    successor = replace(next(iter(_joined(desk).members.values())), member_id="m1b")
    history.add_step(desk.group, (r.MemberReplaced("m1", successor),), 0)
    assert history.rebalanced(done(3, {}, {"m1b": [0]}), {}).moved == ()
    assert [tp.partition for tp in history.rebalanced(done(4, {}, {"m2": [0]}), {}).moved] == [0]


def _joined(desk: Desk) -> Group:
    desk.join("a")
    return desk.group


def test_what_is_revoked_and_what_is_moved() -> None:
    """Moved: given to another than the one that had it.  Revoked: to be given up, or left without an owner."""
    history = History()
    history.rebalanced(done(1, {}, {"m1": [0, 1, 2]}), {})
    history.rebalanced(done(2, {"m1": [0, 1, 2]}, {"m1": [0, 1, 2]}), {TopicPartition("t", 2): "m1"})
    history.rebalanced(done(3, {"m1": [0, 1, 2]}, {"m1": [0], "m2": [2]}), {})
    numbers = [([tp.partition for tp in e.moved], [tp.partition for tp in e.revoked]) for e in history.entries()]
    assert numbers == [([], []), ([], [2]), ([2], [1])]
