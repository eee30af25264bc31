"""What README and docs/ show, as the code has it; ``python -m tests.kit.pages`` writes it into them.

A part that is made stands between ``<!-- name:begin -->`` and ``<!-- name:end -->``.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from sparkcohort.assignors import ASSIGNORS, MemberSubscription
from sparkcohort.cli import views
from sparkcohort.cli.simulate import views as simulate_views
from sparkcohort.cli.simulate.case import Case
from sparkcohort.cli.simulate.changes import change_members
from sparkcohort.cli.simulate.outcome import simulate
from sparkcohort.runtime.group.table import DIFFERENCES, TABLE, Effect, GroupState, Input, Row, diagram
from sparkcohort.runtime.protocol.error_codes import ErrorCode
from sparkcohort.runtime.shell.driver.metric_specs import METRICS
from sparkcohort.runtime.shell.options.declaration import Option
from sparkcohort.runtime.shell.options.table import BY_KEY, OPTIONS
from tests.kit import scenarios
from tests.kit.alert_rules import alerts, recordings
from tools.dashboards.dashboard import dashboard

ROOT: Final = Path(__file__).resolve().parents[2]
README: Final = ROOT / "README.md"
DOCS: Final = ROOT / "docs"
PAGES: Final = (README, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")))
SIMULATED: Final = ("--members", "-executor-3", "--members", "+1@a")
EXAMPLES: Final = {
    "pipeline": (README, "pipeline.py"),
    "listener": (DOCS / "guides/who-reads-what.md", "audit.py"),
    "assignor": (DOCS / "guides/who-reads-what.md", "whole_topics.py"),
    "upsert": (DOCS / "guides/sinks.md", "upsert.py"),
    "streaming-table": (DOCS / "guides/spark-connect.md", "streaming_table.py"),
}
"""Files of ``examples/``, and the page that shows each."""


def pages() -> list[Path]:
    """Every page that a reader may open."""
    return [*PAGES, *sorted(DOCS.rglob("*.md"))]


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown; the cells of the head stand between bars."""
    return "\n".join([f"| {head} |", "|---" * len(head.split("|")) + "|", *(f"| {' | '.join(row)} |" for row in rows)])


def options_table() -> str:
    """Every option of the source; one of keys shares the row of its twin of values."""
    return table("option = default | meaning", ((_names(option), _meaning(option)) for option in OPTIONS))


def _names(option: Option) -> str:
    """The name, that of its twin of keys, and the default of both."""
    key = option.name.replace("value.", "key.", 1)
    twin = f",`{key}`" if key in BY_KEY and key != option.name else ""
    default = f"=`{option.default}`" if option.default else ""
    return f"`{option.name}`{twin}{default}"


def metrics_table() -> str:
    """Every metric of the endpoint with its labels, a row each."""
    labels = {spec: f"{{{','.join(spec.labels)}}}" if spec.labels else "" for spec in METRICS}
    return table("metric | meaning", ((f"`{spec.name}{labels[spec]}`", spec.help) for spec in METRICS))


def alerts_table() -> str:
    """Every alert, a row each, with the way to its paragraph."""
    rows = ((f"[{each.name}](on-call.md#{each.name.lower()})", each.severity, each.wait) for each in alerts())
    return table("alert | severity | after", rows)


def runbook_words() -> str:
    """What each alert means and what to do, by its name, in the words of on-call.md, for the page."""
    chapter = (DOCS / "operate/on-call.md").read_text().partition("\n## Alerts\n")[2]
    words = {}
    for alert in alerts():
        paragraph = re.split(r"\n##+ ", chapter.partition(f"### {alert.name}\n")[2])[0]
        plain = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", re.sub(r"```.*?```\n*", "", paragraph, flags=re.DOTALL))
        meaning, _, remedy = (part.replace("*", "").strip() for part in plain.partition("**Do** "))
        words[alert.name] = {
            "severity": alert.severity,
            "meaning": meaning,
            "do": remedy,
            "link": f"docs/operate/on-call.md#{alert.name.lower()}",
        }
    return json.dumps(words, indent=1, ensure_ascii=False) + "\n"


def recordings_table() -> str:
    """Every recording rule, a row each."""
    return table("recorded as | meaning", ((f"`{each.name}`", each.meaning) for each in recordings()))


def codes_list() -> str:
    """The error codes of the group, with Kafka's numbers."""
    return ", ".join(f"{code.value} `{code.name}`" for code in ErrorCode if code) + "."


def properties_sample() -> str:
    """Every option as a line name=value, its meaning above it; Kafka's own settings stay as they were written."""
    text = SAMPLE.read_text()
    head, tail = text[: text.index("\n## ")], text[text.index(KAFKAS_SETTINGS) :]
    parts = [head.rstrip()]
    for option in OPTIONS:
        if option.status != "honoured" or option.name.startswith("kafka.sasl"):
            continue
        if option.heading:
            parts.append(f"## {option.heading}")
        name, value = option.name.removesuffix("*"), option.example or option.default or ""
        words = textwrap.wrap(
            option.doc[0].upper() + option.doc[1:] + ".", 118, initial_indent="# ", subsequent_indent="# "
        )
        line = f"{name}{value}" if option.name.endswith("*") else f"{name}={value}"
        parts.append("\n".join([*words, line if option.name in REQUIRED else f"#{line}"]))
    return "\n\n".join([*parts, tail])


def _meaning(option: Option) -> str:
    if option.status == "honoured":
        return option.doc.replace("|", "\\|")
    word = "no effect" if option.status == "accepted" else "refused"
    return f"*{word}* ({option.doc}): {option.instead}".replace("|", "\\|")


def state_diagram() -> str:
    """The states, and what moves the group between them."""
    return f"```mermaid\n{diagram()}```"


def request_table() -> str:
    """What the group makes of each input in each state."""
    rows = ([met.value, *(_request_cell(TABLE[state][met]) for state in GroupState)] for met in Input)
    return table(f"| {' | '.join(GroupState)}", rows)


def _request_cell(row: Row) -> str:
    if row.effect is Effect.IGNORE:
        return "–"
    done = [] if row.effect in {Effect.REFUSE, Effect.SIGNAL} else [row.effect.value]
    error = [f"`{row.error.name}`"] if row.error else []
    text = ", ".join(done + error) + (f" → {row.next_state}" if row.next_state else "")
    return text + (f" [{_number(row.differs)}]" if row.differs else "")


def _number(name: str) -> int:
    return list(DIFFERENCES).index(name) + 1


def differences_table() -> str:
    """Where the group answers otherwise than Kafka's."""
    rows = ((str(_number(name)), *difference[:2]) for name, difference in DIFFERENCES.items())
    return table("| Kafka | here", rows)


def section(text: str, name: str) -> str:
    """What stands between ``<!-- name:begin -->`` and ``<!-- name:end -->``."""
    found = re.search(f"<!-- {name}:begin -->\n(.*?)\n?<!-- {name}:end -->", text, re.DOTALL)
    return found.group(1) if found else ""


def with_section(text: str, name: str, body: str) -> str:
    """The text with that section replaced."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    head, _, rest = text.partition(begin)
    return f"{head}{begin}\n{body}\n{end}{rest.partition(end)[2]}"


def block(name: str) -> str:
    """The code that a page shows of an example, without its fence."""
    return section(EXAMPLES[name][0].read_text(), name).removeprefix("```python\n").removesuffix("```")


def example(name: str) -> str:
    """The file of that example as a page shows it: its name first, fenced."""
    file = EXAMPLES[name][1]
    return f"```python\n# examples/{file}\n{(ROOT / 'examples' / file).read_text()}```"


def simulated() -> str:
    """What the command answers about a small group, fenced, with the command above its answer."""
    owned = {"executor-1": (0, 2, 4), "executor-2": (1, 3, 5), "executor-3": (6, 7)}
    members = {
        name: MemberSubscription(
            ("orders",), tuple(("orders", number) for number in mine), 5, rack="b" if mine[0] else "a"
        )
        for name, mine in owned.items()
    }
    base = Case({"orders": 8}, members, {"orders": [("a",), ("b",)] * 4})
    changed = change_members(base, SIMULATED[1::2])
    view = simulate_views.members(base, changed, simulate(base, changed, ASSIGNORS["cooperative-sticky"]))
    lines = (
        f"$ cohort simulate --group billing {' '.join(SIMULATED)}",
        *view.heading,
        views.as_text(view),
        *view.totals,
    )
    return "\n".join(("```", *lines, "```"))


PROTOCOL: Final = DOCS / "audit/group-protocol.md"
SIMULATE: Final = DOCS / "guides/who-reads-what.md"
GENERATED: Final[dict[str, tuple[Path, Callable[[], str]]]] = {
    "options": (DOCS / "options.md", options_table),
    "metrics": (DOCS / "reference/metrics.md", metrics_table),
    "alerts": (DOCS / "operate/monitoring.md", alerts_table),
    "recordings": (DOCS / "operate/monitoring.md", recordings_table),
    "codes": (DOCS / "reference/names.md", codes_list),
    "diagram": (PROTOCOL, state_diagram),
    "table": (PROTOCOL, request_table),
    "differences": (PROTOCOL, differences_table),
    "simulate": (SIMULATE, simulated),
    "scenarios": (DOCS / "audit/scenarios.md", scenarios.summary),
    "pipeline": (README, lambda: example("pipeline")),
    "listener": (EXAMPLES["listener"][0], lambda: example("listener")),
    "assignor": (EXAMPLES["assignor"][0], lambda: example("assignor")),
    "streaming-table": (EXAMPLES["streaming-table"][0], lambda: example("streaming-table")),
    "upsert": (EXAMPLES["upsert"][0], lambda: example("upsert")),
}
"""Each part that is made: its page, and what makes it."""


SAMPLE: Final = ROOT / "conf/cohort.properties"
KAFKAS_SETTINGS: Final = "## Kafka's own client settings"
REQUIRED: Final = ("kafka.bootstrap.servers", "subscribe", "group.id")
FILES: Final[dict[Path, Callable[[], str]]] = {
    ROOT / "dashboards/cohort.json": lambda: json.dumps(dashboard(), indent=2) + "\n",
    ROOT / "dashboards/page/runbook.json": runbook_words,
    SAMPLE: properties_sample,
}
"""Each file that is made as a whole, and what makes it."""


if __name__ == "__main__":
    for path, content in FILES.items():
        path.write_text(content())
    for name, (page, made) in GENERATED.items():
        page.write_text(with_section(page.read_text(), name, made()))
