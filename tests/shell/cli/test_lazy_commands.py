"""CSV, and commands that are imported when they are asked for."""

from __future__ import annotations

import csv
import io
from importlib import import_module

from sparkcohort.cli import views
from sparkcohort.cli.main import LAZY
from tests.kit.command import cohort
from tests.kit.status import a_status


def test_lazy_commands_are_where_the_table_says() -> None:
    """Each has its name, and help with examples."""
    for name, place in LAZY.items():
        module, attribute = place.split(":")
        command = getattr(import_module(module), attribute)
        assert command.name == name
        assert "Examples:" in cohort(name, "--help").stdout


def test_csv_has_the_columns_of_the_table() -> None:
    """Unknown is empty; text with commas and quotes stays one cell."""
    view = views.offsets(a_status(group='a,"b"'))
    header, *rows = csv.reader(io.StringIO(views.as_csv(view)))
    assert tuple(header) == views.OFFSETS
    assert rows[2][:6] == ['a,"b"', "orders", "2", "", "", ""]
    assert len(rows) == 3
