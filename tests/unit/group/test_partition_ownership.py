"""Ownership and commits: one owner per partition at any time, and commits judged by that alone."""

from __future__ import annotations

from sparkcohort.runtime import group as g
from sparkcohort.runtime.group import offsets
from sparkcohort.runtime.protocol import messages as p
from tests.kit.group_desk import Desk, commit, join, leave, stable, sync, tp


def owned(desk: Desk, member_id: str) -> dict[str, int]:
    """What a member owns: partition name to assignment generation."""
    return {f"{t}{n}": since for (t, n), since in g.owned(desk.group, member_id).items()}


def rejoin(desk: Desk, claims: dict[str, str], plan: dict[str, str]) -> None:
    """One whole round: everyone rejoins with its claims, the leader hands in the plan, all sync."""
    for member_id, held in claims.items():
        instance = desk.group.members[member_id].group_instance_id
        desk.ask(join(member_id, member_id[0], instance, claims=held, meta=str(desk.group.generation)))
    generation = desk.group.generation
    desk.ask(sync("a-1", generation, plan))
    for member_id in claims:
        if member_id != "a-1":
            desk.ask(sync(member_id, generation, instance=desk.group.members[member_id].group_instance_id))


ALL = {"a-1": "t0", "i-2": "t1", "b-3": "t2"}


def test_what_is_kept_keeps_its_assignment_generation() -> None:
    """Only what is added has the new generation."""
    desk = stable()
    rejoin(desk, ALL, {"a-1": "t0,t3", "i-2": "t1", "b-3": "t2"})
    assert desk.group.generation == 3
    assert owned(desk, "a-1") == {"t0": 2, "t3": 3}
    assert owned(desk, "b-3") == {"t2": 2}


def test_a_partition_taken_away_stays_owned_until_the_next_join() -> None:
    """Pending revocation: its commits are accepted until its owner joins without claiming it."""
    desk = stable()
    rejoin(desk, ALL, {"a-1": "t0", "i-2": "t1", "b-3": ""})
    assert owned(desk, "b-3") == {"t2": 2}
    assert desk.error(commit("b-3", 3, "t2@2=9")) == "NONE"
    desk.ask(join("b-3", "b", meta="3"))
    assert owned(desk, "b-3") == {}
    assert desk.error(commit("b-3", 3, "t2@2=10")) == "ILLEGAL_GENERATION"


def test_what_another_owns_is_not_granted() -> None:
    """A leader that gives a partition away too early does no harm: its owner has it until its join no longer claims it."""
    desk = stable()
    rejoin(desk, ALL, {"a-1": "t0,t2", "i-2": "t1", "b-3": ""})
    assert owned(desk, "a-1") == {"t0": 2}
    assert desk.error(commit("a-1", 3, "t2@3=9")) == "ILLEGAL_GENERATION"
    assert desk.error(commit("b-3", 3, "t2@2=9")) == "NONE"


def test_the_dead_leave_their_partitions() -> None:
    """What a member owned is free when it is gone, and its commits are refused."""
    desk = stable()
    desk.ask(leave("b-3"))
    assert tp("t2") not in g.owners(desk.group)
    assert desk.error(commit("b-3", 2, "t2@2=5")) == "UNKNOWN_MEMBER_ID"


def test_an_owner_that_missed_its_assignment_does_not_own_it() -> None:
    """A member that joins without what the last plan added has never heard of it: it is free again."""
    desk = stable()
    rejoin(desk, ALL, {"a-1": "t0", "i-2": "t1", "b-3": "t2,t3"})
    desk.ask(join("b-3", "b", claims="t2", meta="3"))
    assert owned(desk, "b-3") == {"t2": 2}


def test_claims_of_what_is_not_owned_count_for_nothing() -> None:
    """A claim is not a right."""
    desk = stable()
    desk.ask(join("b-3", "b", claims="t0,t1,t2", meta="x"))
    assert owned(desk, "b-3") == {"t2": 2}


def test_partitions_are_judged_one_by_one() -> None:
    """One commit, three verdicts; what is refused is counted and explained."""
    desk = stable()
    reply = desk.tell(commit("b-3", 2, "t2@2=5", "t0@2=5", "t2@1=6", "t7@2=1"))
    assert isinstance(reply, p.OffsetCommitReply)
    assert [error.name for _tp, error in reply.partitions] == ["NONE"] + ["ILLEGAL_GENERATION"] * 3
    assert reply.message == (
        "t-0: owned by a-1, not by b-3; t-2: owned since generation 2, not 1; t-7: owned by no member, not by b-3"
    )
    assert p.Refused("OffsetCommit", reply.partitions[1][1], "b-3", 3) in desk.actions
    assert desk.group.committed[tp("t2")].offset == 5


def test_no_more_is_explained_than_is_told() -> None:
    """Who owns what else was refused is not looked for: a commit of everything by nobody in particular is cheap."""
    asked = p.OffsetCommit("b-3", "b", 2, tuple(p.CommittedPosition("t", n, 5, 2) for n in range(100, 200)))
    judged = offsets.judge(stable().group, asked)
    assert [bool(each.reason) for each in judged] == [True] * 3 + [False] * 97
    assert offsets.explain(judged).endswith("t-102: owned by no member, not by b-3; and 97 more")


def test_an_accepted_commit_is_a_sign_of_life() -> None:
    """A commit renews the session, a refused one does not."""
    desk = stable()
    desk.now_ms = 300
    desk.ask(commit("b-3", 2, "t2@2=5"))
    desk.ask(commit("a-1", 2, "t1@2=5"))
    assert (desk.group.sessions["b-3"], desk.group.sessions["a-1"]) == (800, 500)


def test_fetch_tells_what_is_committed() -> None:
    """Offsets of the partitions asked for, -1 where there is none; of all if none is named."""
    desk = stable()
    desk.ask(commit("a-1", 2, "t0@2=7"))
    desk.ask(commit("b-3", 2, "t2@2=11"))
    asked = desk.tell(p.OffsetFetch((tp("t5"), tp("t2"))))
    assert isinstance(asked, p.OffsetFetchReply)
    assert asked.offsets == ((tp("t5"), -1), (tp("t2"), 11))
    everything = desk.tell(p.OffsetFetch())
    assert isinstance(everything, p.OffsetFetchReply)
    assert everything.offsets == ((tp("t0"), 7), (tp("t2"), 11))
