"""docs/audit/group-protocol.md says what the transition table says."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.group.table import DIFFERENCES, TABLE
from tests.kit.group_docs import PAGE, SECTIONS
from tests.kit.pages import section


@pytest.mark.parametrize("name", list(SECTIONS))
def test_generated_parts_are_current(name: str) -> None:
    """Diagram, table and differences are those of the code (else: ``python -m tests.kit.group_docs``)."""
    assert section(PAGE.read_text(), name) == SECTIONS[name]()


def test_every_difference_that_a_cell_names_is_explained() -> None:
    """No cell names a difference that isn't there."""
    named = {row.differs for rows in TABLE.values() for row in rows.values()} - {""}
    assert named <= set(DIFFERENCES)
    assert {"commits per partition", "late sync"} <= named
