"""Any request of anyone at any time: the group is total, and its laws hold even when members and leader talk nonsense."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkcohort.runtime.group import GroupConfig
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.reasons import requested
from tests.kit.group_desk import Desk, beat, commit, join, leave, stable, sync
from tests.kit.tier import of_tier

IDS = st.sampled_from(["", "a-1", "i-2", "b-3", "c-4", "i-4", "c-5", "i-5", "x-9"])
INSTANCES = st.sampled_from([None, None, None, "i", "j"])
PLANS = st.sampled_from(["", "t0", "t1", "t2", "t0,t1", "t1,t2,t3"])
AHEAD = st.sampled_from([0, 0, 0, 0, -1, 1])
PROTOCOLS = st.sampled_from([("coop",), ("coop",), ("coop", "range"), ("range", "coop"), ("range",), ()])
METAS = st.sampled_from(["", "", "x"])
ASKS = st.one_of(
    st.tuples(st.just("join"), IDS, INSTANCES, PLANS, PROTOCOLS, METAS),
    st.tuples(st.just("sync"), IDS, INSTANCES, AHEAD, st.dictionaries(IDS, PLANS, max_size=4)),
    st.tuples(st.just("beat"), IDS, INSTANCES, AHEAD),
    st.tuples(st.just("leave"), IDS, INSTANCES),
    st.tuples(st.just("commit"), IDS, INSTANCES, AHEAD, st.integers(0, 3), st.integers(1, 6)),
    st.tuples(st.just("pass"), st.integers(1, 600)),
    st.tuples(st.just("trigger")),
    st.tuples(st.just("everyone rejoins"), PLANS),
    st.tuples(st.just("the leader plans"), PLANS, PLANS),
)


def ask(desk: Desk, what: str, *how: object) -> None:
    """Do one thing."""
    match what, how:
        case "join", (str(member_id), instance, str(claims), tuple(names), str(meta)):
            client = (member_id or "c")[0]
            desk.ask(join(member_id, client, _text(instance), claims, protocols=names, meta=meta))
        case "sync", (str(member_id), instance, int(ahead), dict(plan)):
            desk.ask(sync(member_id, desk.group.generation + ahead, plan, _text(instance)))
        case "beat", (str(member_id), instance, int(ahead)):
            desk.ask(beat(member_id, desk.group.generation + ahead, _text(instance)))
        case "leave", (str(member_id), instance):
            desk.ask(leave(member_id) if instance is None else p.LeaveGroup((p.LeavingMember("", str(instance)),)))
        case "commit", (str(member_id), instance, int(ahead), int(number), int(since)):
            generation = desk.group.generation + ahead if member_id else -1
            desk.ask(commit(member_id, generation, f"t{number}@{since}=1", instance=_text(instance)))
        case "pass", (int(by_ms),):
            desk.pass_to(desk.now_ms + by_ms)
        case "everyone rejoins", (str(claims),):
            for member_id in desk.members():
                desk.ask(join(member_id, member_id[0], None, claims, meta=str(desk.asked)))
        case "the leader plans", (str(one), str(other)):
            plan = dict(zip(desk.members(), (one, other, one), strict=False))
            desk.ask(sync(desk.group.leader, desk.group.generation, plan))
        case _:
            desk.step(p.Trigger(requested("asked to")))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


@settings(max_examples=of_tier(quick=50, thorough=150))
@given(st.lists(ASKS, max_size=40), st.sampled_from([3, 100]), st.booleans())
def test_anything_goes(asks: list[tuple[str, object]], size: int, begun: bool) -> None:
    """Nothing raises; every request is answered once or parked; I1, I4, I5 hold, refusals change nothing, replay agrees."""
    config = GroupConfig("billing", max_size=size)
    desk = stable(max_size=size) if begun else Desk(config)
    for what, *how in asks:
        ask(desk, what, *how)
        parked = {*desk.group.joins.values(), *desk.group.syncs.values()}
        assert set(range(1, desk.asked + 1)) == desk.replies.keys() | parked
        assert not desk.replies.keys() & parked
    desk.pass_to(desk.now_ms + 10_000)
    assert desk.group.members == {}
    assert desk.group.state == "Empty"
