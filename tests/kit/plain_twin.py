"""The core's group beside the plain one: what can be compared of both, after every event."""

from __future__ import annotations

from typing import Any

from sparkcohort.runtime.group import Decision
from sparkcohort.runtime.group.state import Group
from sparkcohort.runtime.protocol import messages as p
from tests.kit.plain_group import PlainGroup


def view_of(group: Group) -> dict[str, Any]:
    """The core's group as ``PlainGroup.view`` shows it."""
    phase = group.rebalance
    joining = phase is not None and group.state == "PreparingRebalance"
    return {
        "head": (group.state.value, group.generation, group.protocol_type, group.protocol_name, group.leader),
        "members": [
            (x, y.group_instance_id, y.protocols, group.joins.get(x), group.syncs.get(x), group.sessions.get(x))
            for x, y in group.members.items()
        ],
        "timeouts": [(x.session_timeout_ms, x.rebalance_timeout_ms) for x in group.members.values()],
        "issued": dict(group.pending),
        "owe a sync": set(group.unsynced),
        "assignments": dict(group.assignments),
        "owned": {x: dict(y) for x, y in group.owned.items() if y},
        "promised": {x: dict(y) for x, y in group.pending_assignments.items() if y},
        "offsets": {tp: tuple(at[:3]) for tp, at in group.committed.items()},
        "join phase": (phase.deadline_ms, phase.remaining_ms) if joining and phase else None,
        "serial": group.serial,
    }


def essence(reply: p.Reply) -> object:
    """What a reply tells, but for words; of a description the state only."""
    if isinstance(reply, p.DescribeGroupReply):
        return reply.state
    return {name: getattr(reply, name) for name in reply.__struct_fields__ if name != "message"}


def check_plain(plain: PlainGroup, event: p.Event, now_ms: int, decision: Decision) -> None:
    """Let the twin handle what the core has handled; both answer alike and are alike then."""
    plain.handle(event, now_ms)
    answered = {a.correlation: essence(a.reply) for a in decision.actions if isinstance(a, p.Answer)}
    assert answered == {number: essence(reply) for number, reply in plain.answers.items()}
    core, twin = view_of(decision.group), plain.view()
    unlike = {name: (core[name], twin[name]) for name in core if core[name] != twin[name]}
    assert not unlike, f"{event}: {unlike}"
