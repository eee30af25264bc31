"""The laws I1 to I5 over random runs: several members, any order of deliveries, crashes, freezes, lost requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkcohort.runtime.group import GroupConfig
from sparkcohort.runtime.member.machine import Stop
from sparkcohort.runtime.protocol import messages as p
from sparkcohort.runtime.protocol.partitions import TopicPartition
from sparkcohort.runtime.protocol.reasons import requested
from tests.kit.group_world import REBALANCE_MS, SESSION_MS, Node, World, static_restart

TOPICS = {"orders": 5, "items": 3}
ACTS = (
    *["deliver"] * 4,
    *["handle"] * 6,
    *["drain"] * 3,
    *["pass", "sleep", "freeze", "thaw"] * 2,
    *["start", "eager", "static", "restart", "kill", "stop", "lose", "trigger"],
    *["commit"] * 3,
)
SCRIPTS = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 11)), max_size=60)


def play(world: World, act: str, n: int) -> None:
    """Do one thing to the world; what can't be done now is left out."""
    node = world.nodes[n % len(world.nodes)]
    match act:
        case "deliver" if world.requests:
            world.requests.rotate(-(n % len(world.requests)))
            world.deliver()
        case "handle":
            ready = [x for x in world.nodes if x.running and x.inbox]
            if ready:
                world.handle(ready[n % len(ready)])
        case "sleep":
            world.now_ms += (n + 1) * 700
            world.tick()
        case "pass":
            world.advance((n + 1) * 1_100)
        case "lose" if world.requests:
            world.lose_request()
        case "commit":
            partitions = [TopicPartition(t, i) for t, count in TOPICS.items() for i in range(count)]
            world.commit(node, partitions[n % len(partitions)], n, None if n % 2 else world.group.generation)
        case "trigger":
            world.group_step(p.Trigger(requested("topics changed")))
        case "drain":
            world.drain()
        case _:
            fault(world, act, node, n)


def fault(world: World, act: str, node: Node, n: int) -> None:
    """Start, stop or break a process."""
    match act:
        case "start" if len(world.nodes) < 8:
            world.start(f"m{len(world.nodes)}", (("orders",), ("orders", "items"))[n % 2])
        case "eager" if len(world.nodes) < 8:
            world.start(f"e{len(world.nodes)}", ("orders",), eager=True)
        case "static" if len(world.nodes) < 8:
            world.start("s", ("orders", "items"), instance=f"i{n % 2}")
        case "kill":
            world.kill(node)
        case "freeze":
            node.frozen = True
        case "thaw":
            node.frozen = False
        case "stop" if node.running:
            world.member_step(node, Stop("test"))
        case "restart" if node.member.config.group_instance_id and node.running and len(world.nodes) < 12:
            static_restart(world, node)


def world_of(delay_ms: int, *, settled: bool) -> World:
    """A driver that leads, a dynamic and a static member: just started, or settled."""
    world = World(TOPICS, GroupConfig("billing", initial_rebalance_delay_ms=delay_ms, max_size=7))
    world.start("driver", ())
    world.start("m1", ("orders", "items"))
    world.start("s", ("orders", "items"), instance="i0")
    if settled:
        world.drain()
        world.advance(2 * delay_ms)
        world.check_settled()
    return world


def calm(world: World) -> None:
    """End all faults: the frozen die, of the static processes of one instance id the newest lives; then time passes."""
    newest: dict[str, Node] = {}
    for node in world.nodes:
        if node.frozen:
            world.kill(node)
        instance = node.member.config.group_instance_id
        if instance is not None and node.running:
            if instance in newest:
                world.kill(newest[instance])
            newest[instance] = node
    world.drain()
    world.advance(2 * SESSION_MS + 2 * REBALANCE_MS)


@given(SCRIPTS, st.sampled_from([0, 900]), st.booleans(), st.sampled_from([0, 4_000, 60_000]))
def test_laws_hold_after_every_step(
    script: list[tuple[str, int]], delay_ms: int, settled: bool, departed_ms: int
) -> None:
    """Whatever happens in whatever order, I1, I4, I5 and replay hold at every step; I2 and I3 once faults have ended."""
    world = world_of(delay_ms, settled=settled)
    world.max_delay_ms = departed_ms
    for act, n in script:
        play(world, act, n)
    calm(world)
    world.advance(departed_ms)
    if any(node.running for node in world.nodes):
        world.check_settled()
        assert not world.leader_state().scheduled.lost
