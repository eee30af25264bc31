"""The generated parts of docs/audit/group-protocol.md; ``python -m tests.kit.group_docs`` writes them into it."""

from __future__ import annotations

from pathlib import Path

from sparkcohort.runtime.group.table import DIFFERENCES, TABLE, Effect, GroupState, Input, Row, diagram
from tests.kit.pages import with_section

PAGE = Path(__file__).parents[2] / "docs" / "audit" / "group-protocol.md"


def state_diagram() -> str:
    """The states, and what moves the group between them."""
    return f"```mermaid\n{diagram()}```"


def request_table() -> str:
    """What the group makes of each input in each state."""
    head = f"| | {' | '.join(GroupState)} |"
    rule = "|---" * (len(GroupState) + 1) + "|"
    rows = [f"| {met.value} | {' | '.join(_cell(TABLE[state][met]) for state in GroupState)} |" for met in Input]
    return "\n".join([head, rule, *rows])


def _cell(row: Row) -> str:
    if row.effect is Effect.IGNORE:
        return "–"
    done = [] if row.effect in {Effect.REFUSE, Effect.SIGNAL} else [row.effect.value]
    error = [f"`{row.error.name}`"] if row.error else []
    text = ", ".join(done + error) + (f" → {row.next_state}" if row.next_state else "")
    return text + (f" [{_number(row.differs)}]" if row.differs else "")


def _number(name: str) -> int:
    return list(DIFFERENCES).index(name) + 1


def differences() -> str:
    """Where the group answers otherwise than Kafka's."""
    rows = [f"| {_number(name)} | {' | '.join(difference[:2])} |" for name, difference in DIFFERENCES.items()]
    return "\n".join(["| | Kafka | here |", "|---|---|---|", *rows])


SECTIONS = {"diagram": state_diagram, "table": request_table, "differences": differences}


def current(text: str) -> str:
    """The page with its generated parts as the code has them."""
    for name, body in SECTIONS.items():
        text = with_section(text, name, body())
    return text


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text()))
