"""From runs to medians, ratios, a table and one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from tools.bench.results import Throughput, Trickle

BASE = "cohort"
Value = float | None


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def throughput(runs: Iterable[Throughput]) -> dict[str, dict[str, object]]:
    """Per source: rows per second, CPU-seconds per million rows and their shares, whole-query figures."""
    by_peer: dict[str, list[Throughput]] = {}
    for run in runs:
        by_peer.setdefault(run.peer, []).append(run)
    return {peer: _one_source(found) for peer, found in by_peer.items()}


def _one_source(runs: Sequence[Throughput]) -> dict[str, object]:
    kinds = sorted({kind for run in runs for kind in run.cpu_s})
    shares = {kind: median(run.cpu_s.get(kind, 0.0) / run.rows * 1e6 for run in runs) for kind in kinds}
    return {
        "runs": len(runs),
        "rows_per_s": spread([run.rows_per_s for run in runs]),
        "cpu_s_per_million": spread([run.cpu_per_million for run in runs]),
        "cpu_s_per_million_by_process": {kind: used for kind, used in shares.items() if used > 0},
        "query_rows_per_s": spread([run.query_rows / run.query_wall_s for run in runs]),
        "query_cpu_s_per_million": spread([run.query_cpu_s / run.query_rows * 1e6 for run in runs]),
        "first_batch_s": spread([run.first_batch_s for run in runs]),
    }


def trickle(runs: Iterable[Trickle]) -> dict[str, dict[str, dict[str, object]]]:
    """Per source and number of partitions: batches measured, their median trigger time, the seconds it took."""
    pooled: dict[str, dict[str, list[Trickle]]] = {}
    for run in runs:
        pooled.setdefault(run.peer, {}).setdefault(str(run.partitions), []).append(run)
    return {peer: {at: _one_trickle(found) for at, found in by_size.items()} for peer, by_size in pooled.items()}


def _one_trickle(runs: Sequence[Trickle]) -> dict[str, object]:
    times = [each for run in runs for each in run.trigger_ms]
    return {
        "batches": len(times) + sum(run.unmeasured for run in runs),
        "measured": len(times),
        "trigger_ms": spread(times) if times else None,
        "seconds": sum(run.seconds for run in runs),
    }


def ratio(over: Value, under: Value) -> Value:
    """``over / under``, None when one of them isn't known."""
    return None if over is None or not under else over / under


def ratios(rates: Mapping[str, Mapping[str, object]], trickles: Mapping[str, Mapping[str, object]]) -> dict[str, Value]:
    """Cohort against each peer, and each source's trigger time at the most partitions against the fewest."""
    found: dict[str, Value] = {}
    for peer in rates:
        if peer != BASE and BASE in rates:
            found[f"rows_per_s cohort / {peer}"] = ratio(
                _median(rates[BASE]["rows_per_s"]), _median(rates[peer]["rows_per_s"])
            )
            own, other = (_median(rates[name]["cpu_s_per_million"]) for name in (BASE, peer))
            found[f"cpu cohort / {peer}"] = ratio(own, other)
    own_sizes = trickles.get(BASE, {})
    for peer, by_size in trickles.items():
        for size in own_sizes.keys() & by_size.keys() if peer != BASE else ():
            found[f"trigger cohort / {peer}, {size} partitions"] = ratio(
                _trigger(own_sizes[size]), _trigger(by_size[size])
            )
        few, many = min(by_size, key=int), max(by_size, key=int)
        if few != many:
            found[f"trigger {peer} {many} / {few} partitions"] = ratio(_trigger(by_size[many]), _trigger(by_size[few]))
    return found


def _median(value: object) -> Value:
    return value["median"] if isinstance(value, dict) else None


def _trigger(value: object) -> Value:
    return _median(value["trigger_ms"]) if isinstance(value, dict) else None


def print_tables(result: Mapping[str, object]) -> None:
    """The result for people: as wide as the terminal, without colours or boxes that a pipe can't show."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=120, no_color=True)
    for table in (
        _rates_table(result["throughput"]),
        _trickle_table(result["trickle"]),
        _drain_table(result.get("drain")),
        _ratio_table(result["ratios"]),
    ):
        if table.row_count:
            console.print(table)


def _rates_table(rates: object) -> Table:
    table = Table(title="All of a topic, steady batches (median, least to greatest)")
    for name in ("source", "M rows/s", "CPU-s per M rows", "of which", "whole query, M rows/s", "first batch, s"):
        table.add_column(name, justify="left" if name in {"source", "of which"} else "right")
    for peer, seen in rates.items() if isinstance(rates, dict) else ():
        shares = sorted(seen["cpu_s_per_million_by_process"].items(), key=lambda share: -share[1])
        table.add_row(
            peer,
            _spread(seen["rows_per_s"], 1e-6),
            _spread(seen["cpu_s_per_million"]),
            ", ".join(f"{kind} {used:.2f}" for kind, used in shares if used >= 0.005),
            _spread(seen["query_rows_per_s"], 1e-6),
            f"{seen['first_batch_s']['median']:.1f}",
        )
    return table


def _trickle_table(trickles: object) -> Table:
    table = Table(title="A trickle of data, trigger 0")
    for name in ("source", "partitions", "trigger ms (median, least to greatest)", "batches", "in s"):
        table.add_column(name, justify="left" if name == "source" else "right")
    for peer, by_size in trickles.items() if isinstance(trickles, dict) else ():
        for size, seen in by_size.items():
            times = _spread(seen["trigger_ms"], 1, 0) if seen["trigger_ms"] else "-"
            table.add_row(peer, size, times, str(seen["batches"]), f"{seen['seconds']:.0f}")
    return table


def _drain_table(drains: object) -> Table:
    table = Table(title="Kafka into Arrow in one process, without Spark (median, least to greatest)")
    for name in ("who", "M rows/s", "M rows per CPU-s"):
        table.add_column(name, justify="left" if name == "who" else "right")
    for peer, seen in drains.items() if isinstance(drains, dict) else ():
        table.add_row(peer, _spread(seen["rows_per_s"], 1e-6), _spread(seen["rows_per_cpu_s"], 1e-6))
    return table


def _ratio_table(found: object) -> Table:
    table = Table(title="Ratios")
    table.add_column("what")
    table.add_column("ratio", justify="right")
    for name, value in found.items() if isinstance(found, dict) else ():
        table.add_row(name, "-" if value is None else f"{value:.2f}")
    return table


def _spread(seen: Mapping[str, float], scale: float = 1, digits: int = 2) -> str:
    shown: Callable[[str], str] = lambda name: f"{seen[name] * scale:.{digits}f}"  # noqa: E731
    return f"{shown('median')} ({shown('min')} to {shown('max')})"


def as_json(result: Mapping[str, object]) -> str:
    """One line; numbers of four significant digits."""
    return json.dumps(_rounded(result), separators=(",", ":"))


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
