"""From runs to medians, bounds, tables and one JSON object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.bench.figures import ratio, spread
from tools.bench.group.core import CoreRun
from tools.bench.group.peers import EVENTS, OURS, PeerRun
from tools.bench.group.rpc import RpcRun

CORE_HEARTBEATS, RPC_HEARTBEATS = 20_000, 5_000
AIM_RATIO = 10
AIMED_EVENTS = ("join", "leave")


def core(runs: Sequence[CoreRun], memory: Mapping[str, float]) -> dict[str, Any]:
    """CPU times of the rebalances in ms, heartbeats per CPU-second of the group and of both sides, bytes per member."""
    names = runs[0].rebalances
    return {
        "runs": len(runs),
        "members": runs[0].members,
        "partitions": runs[0].partitions,
        "rebalances": {name: _rebalance([run.rebalances[name] for run in runs]) for name in names},
        "heartbeats_per_cpu_s": spread([run.heartbeats / run.heartbeat.group for run in runs]),
        "heartbeats_per_cpu_s_with_members": spread(
            [run.heartbeats / (run.heartbeat.group + run.heartbeat.members) for run in runs]
        ),
        "bytes_per_member": dict(memory),
    }


def _rebalance(spent: Sequence[Any]) -> dict[str, Any]:
    ms = {name: spread([getattr(one, name) * 1e3 for one in spent]) for name in ("without_assignor", "assignor")}
    return {f"{name}_cpu_ms": value for name, value in ms.items()} | {
        "group_cpu_ms": spread([one.group * 1e3 for one in spent])
    }


def rpc(runs: Sequence[RpcRun]) -> dict[str, Any]:
    """Seconds from the first join to stable, heartbeats per second of the server's CPU, bytes per member."""
    return {
        "runs": len(runs),
        "members": runs[0].members,
        "partitions": runs[0].partitions,
        "stable_s": spread([run.stable_s for run in runs]),
        "stable_server_cpu_s": spread([run.stable_cpu_s for run in runs]),
        "rebalances": spread([float(run.rebalances) for run in runs]),
        "heartbeats_per_server_cpu_s": spread([run.per_cpu_s for run in runs]),
        "heartbeats_per_s": spread([run.per_s for run in runs]),
        "refused": sum(run.refused for run in runs),
        "bytes_per_member": spread([run.member_bytes for run in runs]),
    }


def peers(runs: Iterable[PeerRun]) -> dict[str, dict[str, dict[str, Any]]]:
    """Per peer and event: ms until settled, longest pause of kept partitions in ms, how many paused, how many moved."""
    grouped: dict[str, dict[str, list[PeerRun]]] = {}
    for run in runs:
        grouped.setdefault(run.peer, {}).setdefault(run.event, []).append(run)
    return {peer: {event: _event(found) for event, found in by_event.items()} for peer, by_event in grouped.items()}


def _event(runs: Sequence[PeerRun]) -> dict[str, Any]:
    seen = [run.outcome for run in runs]
    return {
        "runs": len(seen),
        "settled_ms": spread([one.settled_s * 1e3 for one in seen]),
        "pause_ms": spread([one.pause_s * 1e3 for one in seen]),
        "kept": spread([float(one.kept) for one in seen]),
        "paused": spread([float(one.paused) for one in seen]),
        "moved": spread([float(one.moved) for one in seen]),
    }


def ratios(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> dict[str, float | None]:
    """How many times longer each peer takes than we do."""
    ours = found.get(OURS, {})
    return {
        f"{event}: {peer} / {OURS}": ratio(by_event[event]["settled_ms"]["median"], ours[event]["settled_ms"]["median"])
        for peer, by_event in found.items()
        for event in EVENTS
        if peer != OURS and event in ours and event in by_event
    }


def bounds(result: Mapping[str, Any]) -> dict[str, bool]:
    """What has to hold, and whether it does, of the parts that were measured."""
    held: dict[str, bool] = {}
    if seen := result.get("core"):
        held[f"core: {CORE_HEARTBEATS:,} heartbeats per CPU-second"] = (
            seen["heartbeats_per_cpu_s"]["median"] >= CORE_HEARTBEATS
        )
    if seen := result.get("rpc"):
        held[f"RPC: {RPC_HEARTBEATS:,} heartbeats per second of the server's CPU, none refused"] = (
            seen["heartbeats_per_server_cpu_s"]["median"] >= RPC_HEARTBEATS and not seen["refused"]
        )
    for name, value in result.get("ratios", {}).items():
        if name.partition(":")[0] in AIMED_EVENTS:
            held[f"{name} at least {AIM_RATIO}"] = value is not None and value >= AIM_RATIO
    for event, seen in result.get("peers", {}).get(OURS, {}).items():
        if seen["kept"]["max"]:
            held[f"{event}: no kept partition of {OURS} pauses"] = seen["paused"]["max"] == 0
    return held


# --- for people --------------------------------------------------------------------------------------


def print_tables(result: Mapping[str, Any]) -> None:
    """The result as tables, as wide as the terminal; piped, without colours."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=140, no_color=True)
    tables = (
        _core_table(result.get("core")),
        _rpc_table(result.get("rpc")),
        _peer_table(result.get("peers", {}), result.get("ratios", {})),
        _bound_table(result.get("bounds", {})),
    )
    for table in tables:
        if table.row_count:
            console.print(table)


def _core_table(seen: Mapping[str, Any] | None) -> Table:
    table = _figures("The pure core", seen)
    if seen is None:
        return table
    for name, spent in seen["rebalances"].items():
        shown = f"{_spread(spent['without_assignor_cpu_ms'])} (the assignor apart: {spent['assignor_cpu_ms']['median']:.0f})"
        table.add_row(f"{name}: CPU ms until all are stable, every member's included", shown)
        table.add_row(f"{name}: of which the group itself", _spread(spent["group_cpu_ms"]))
    table.add_row("heartbeats per CPU-second of the group", _spread(seen["heartbeats_per_cpu_s"]))
    table.add_row("the same with the members' own steps", _spread(seen["heartbeats_per_cpu_s_with_members"]))
    held = seen["bytes_per_member"]
    table.add_row(
        "KiB per member: the group's value, the member itself",
        f"{held['group'] / 1024:.1f}, {held['member'] / 1024:.1f}",
    )
    return table


def _rpc_table(seen: Mapping[str, Any] | None) -> Table:
    table = _figures("Through the RPC with mutual TLS", seen)
    if seen is None:
        return table
    table.add_row("all join at once: s until every member is stable", _spread(seen["stable_s"], 1, 2))
    table.add_row("of which CPU-s of the server", _spread(seen["stable_server_cpu_s"], 1, 2))
    table.add_row("rebalances that took", _spread(seen["rebalances"]))
    table.add_row("heartbeats per second of the server's CPU", _spread(seen["heartbeats_per_server_cpu_s"]))
    table.add_row("heartbeats per second, clients on the same machine", _spread(seen["heartbeats_per_s"]))
    table.add_row(
        "KiB per member in the server, connection and stream included", _spread(seen["bytes_per_member"], 1 / 1024)
    )
    return table


def _figures(title: str, seen: Mapping[str, Any] | None) -> Table:
    what = f": {seen['members']:,} members, {seen['partitions']:,} partitions" if seen else ""
    table = Table(title=f"{title}{what} (median, least to greatest)")
    table.add_column("what")
    table.add_column("figure", justify="right")
    return table


def _peer_table(found: Mapping[str, Any], times: Mapping[str, float | None]) -> Table:
    table = Table(title="Time to stable (median, least to greatest)")
    for name in (
        "event",
        "peer",
        "ms until stable",
        f"times {OURS}'s",
        "longest pause of a kept partition, ms",
        "paused",
        "moved",
    ):
        table.add_column(name, justify="left" if name in {"event", "peer"} else "right")
    for event in EVENTS:
        for peer, by_event in found.items():
            if (seen := by_event.get(event)) is not None:
                more = times.get(f"{event}: {peer} / {OURS}")
                table.add_row(
                    event,
                    peer,
                    _spread(seen["settled_ms"]),
                    "" if more is None else f"{more:.1f}",
                    _spread(seen["pause_ms"]),
                    f"{seen['paused']['median']:.0f} of {seen['kept']['median']:.0f}",
                    f"{seen['moved']['median']:.0f}",
                )
    return table


def _bound_table(held: Mapping[str, bool]) -> Table:
    table = Table(title="Bounds")
    table.add_column("what")
    table.add_column("holds", justify="right")
    for name, holds in held.items():
        table.add_row(name, "yes" if holds else "NO")
    return table


def _spread(seen: Mapping[str, float], scale: float = 1, digits: int = 0) -> str:
    low, middle, high = (f"{seen[name] * scale:,.{digits}f}" for name in ("min", "median", "max"))
    return f"{middle} ({low} to {high})"
