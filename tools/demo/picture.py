"""What a killed executor does to the partitions, drawn from a run of the demo.

``make demo ARGS=docs/images/kill.json`` keeps a run, ``python -m tests.kit.pages`` draws docs/images/kill.svg of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tools.demo.verdict import Delivery

BEFORE_S, AFTER_S, BIN_S = 6.0, 6.0, 0.25
"""The seconds that are shown before the kill and after the last move, and the width of one mark."""
WIDTH, LEFT, RIGHT, TOP, ROW, GAP = 1000, 212, 212, 142, 17, 12
SHAPES: Final = {
    "circle": "M{x:.1f} {y:.1f}m-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0",
    "square": "M{x:.1f} {y:.1f}m-2.7 -2.7h5.4v5.4h-5.4z",
    "triangle": "M{x:.1f} {y:.1f}m0 -3.5l3.5 6.2h-7z",
    "diamond": "M{x:.1f} {y:.1f}m0 -4l4 4l-4 4l-4 -4z",
}
OWNERS: Final = ("circle", "square", "triangle")
"""The shapes of the three executors before the kill; the replacement's is the diamond, other tasks' an empty circle."""
INK, MUTED, KILL = "#1f2328", "#59636e", "#b3261e"
FILLS: Final = {"circle": "#0969da", "square": "#8250df", "triangle": "#9a6700", "diamond": "#1a7f37"}
LEGEND: Final = "● ■ ▲ the executors, ◆ the replacement, ○ tasks of other executors. From a real run: make demo."
STYLE: Final = f"""
  text {{ font: 13px system-ui, sans-serif; fill: {INK}; }}
  .head {{ font-size: 17px; font-weight: 600; }} .small {{ font-size: 12px; fill: {MUTED}; }}
  .box {{ fill: #f6f8fa; stroke: {MUTED}; }} .kill {{ stroke: {KILL}; fill: {KILL}; }} text.kill {{ stroke: none; }}
  .line {{ fill: none; stroke: {MUTED}; }} .tasks {{ fill: none; stroke: {INK}; }} .page {{ fill: #ffffff; }} .gap {{ stroke: {MUTED}; stroke-dasharray: 2 4; }}
  @media (prefers-color-scheme: dark) {{
    text {{ fill: #e6edf3; }} .small {{ fill: #9198a1; }} .page {{ fill: #0d1117; }}
    .box {{ fill: #151b23; stroke: #9198a1; }} .kill {{ stroke: #ff7b72; fill: #ff7b72; }} .gap {{ stroke: #9198a1; }}
    .circle {{ fill: #58a6ff; }} .square {{ fill: #bc8cff; }} .triangle {{ fill: #e3b341; }} .diamond {{ fill: #3fb950; }}
    .tasks {{ stroke: #e6edf3; }}
  }}
"""


def moments(deliveries: Iterable[Delivery], killed_ms: int, settled_ms: int) -> dict[str, list[float]]:
    """By partition, the seconds from the kill on at which records of it were delivered, in steps of ``BIN_S``."""
    found: dict[str, set[float]] = defaultdict(set)
    end_s = (settled_ms - killed_ms) / 1000 + AFTER_S
    for partition, _, _, at_ms in deliveries:
        at_s = (at_ms - killed_ms) / 1000
        if -BEFORE_S <= at_s <= end_s:
            found[str(partition)].add(at_s // BIN_S * BIN_S)
    return {partition: sorted(found[partition]) for partition in sorted(found, key=int)}


def picture(run: dict[str, Any]) -> str:
    """The run as an SVG: a row for each partition, its owners at both ends, a mark for each quarter of a second with records."""
    before, after, killed = run["before"], run["after"], run["killed"]
    order = [*(each for each in sorted(before) if each != killed), killed]
    heirs = {executor: _heir(before[executor], after) for executor in order}
    end_s = run["settled_s"] + AFTER_S
    scale = (WIDTH - LEFT - RIGHT) / (BEFORE_S + end_s)
    parts, top = [], TOP
    for number, executor in enumerate(order):
        parts += _executor(run, executor, heirs[executor], number, top, scale)
        top += len(before[executor]) * ROW + 2 * GAP
    zero, settled = (LEFT + (BEFORE_S + moment) * scale for moment in (0, run["settled_s"]))
    kept = sum(len(set(before[executor]) & set(after.get(executor, []))) for executor in order)
    moved = len(set(before[killed]) & set(after[heirs[killed]]))
    foot = (
        f"{kept} partitions stayed where they were and kept flowing; {moved} went to the replacement, "
        f"read by other tasks meanwhile. Lost {run['lost']}, duplicated {run['duplicated']}."
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 72}" role="img">',
        f"<title>An executor is killed: {escape(foot)}</title><style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{top + 72}" rx="8"/>',
        _text(20, 32, "One of three executors is killed: who reads which partition", "head"),
        _text(
            20, 54, "Kafka topic with 12 partitions. Each mark: records of that partition reached the sink.", "small"
        ),
        f'<rect class="box" x="20" y="66" width="{WIDTH - 40}" height="30" rx="6"/>',
        _text(30, 86, "Spark driver: plans the batches, gives each partition an owner, commits to the Kafka group"),
        f'<path class="line" d="M106 96V{TOP}M{WIDTH - 106} 96V{TOP}"/>',
        _text(114, TOP - 14, "before", "small"),
        _text(WIDTH - 98, TOP - 14, "after", "small"),
        *parts,
        f'<path class="kill" d="M{zero:.1f} {TOP - 6}V{top - GAP}" stroke-width="2"/>',
        _text(zero + 5, TOP - 10, f"✕ executor {killed} killed", "kill"),
        f'<path class="line" d="M{settled:.1f} {TOP - 6}V{top - GAP}"/>',
        _text(settled - 60, top + 4, f"replacement ready: {run['settled_s']:.0f} s", "small"),
        _text(20, top + 32, foot),
        _text(20, top + 54, LEGEND, "small"),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _heir(partitions: list[int], after: dict[str, list[int]]) -> str:
    """The executor that owns them in the end."""
    return max(sorted(after), key=lambda executor: len(set(after[executor]) & set(partitions)))


def _executor(run: dict[str, Any], executor: str, heir: str, number: int, top: int, scale: float) -> list[str]:
    """The rows of one executor's partitions, between the box of their owner and that of who owns them in the end."""
    partitions = run["before"][executor]
    height = len(partitions) * ROW + GAP
    gone = executor == run["killed"]
    lines = [
        f'<rect class="box" x="20" y="{top}" width="{LEFT - 40}" height="{height}" rx="6"/>',
        _text(30, top + 24, f"executor {executor}" + (" ✕" if gone else ""), "kill" if gone else ""),
        _text(30, top + 44, _numbers(partitions), "small"),
        f'<rect class="box" x="{WIDTH - RIGHT + 18}" y="{top}" width="{RIGHT - 38}" height="{height}" rx="6"/>',
        _text(WIDTH - RIGHT + 28, top + 24, f"executor {heir}" + (", new" if gone else "")),
        _text(WIDTH - RIGHT + 28, top + 44, _outcome(partitions, run["after"].get(heir, []), gone=gone), "small"),
    ]
    for row, partition in enumerate(partitions):
        y = top + GAP / 2 + (row + 0.5) * ROW
        lines.append(f'<path class="gap" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        lines += [
            _mark(
                _reader(OWNERS[number % 3], moment, run["settled_s"], gone=gone), LEFT + (BEFORE_S + moment) * scale, y
            )
            for moment in run["delivered_s"].get(str(partition), [])
        ]
    return lines


def _outcome(before: list[int], after: list[int], *, gone: bool) -> str:
    """What the partitions came to: an owner that stayed has the same ones, unless the run says otherwise."""
    kept = len(set(before) & set(after))
    if kept == len(before):
        return f"got all {kept}" if gone else "the same, kept flowing"
    return f"has {kept} of these {len(before)}"


def _numbers(partitions: list[int]) -> str:
    return "partitions " + " ".join(map(str, partitions))


def _reader(owner: str, moment: float, settled: float, *, gone: bool) -> str:
    """The shape of who read at that moment: of a killed executor's partitions other tasks, then the replacement."""
    if not gone or moment < 0:
        return owner
    return "tasks" if moment < settled else "diamond"


def _mark(reader: str, x: float, y: float) -> str:
    if reader == "tasks":
        return f'<path class="tasks" d="{SHAPES["circle"].format(x=x, y=y)}"/>'
    return f'<path class="{reader}" fill="{FILLS[reader]}" d="{SHAPES[reader].format(x=x, y=y)}"/>'


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"' + (f' class="{kind}"' if kind else "") + f">{escape(words)}</text>"
