"""The bench of decoders: what it makes of its runs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tools.bench.decoders import main, sides
from tools.bench.decoders.sides import OURS, Side, SideError
from tools.demo import flights


def test_ratios_are_of_the_same_round() -> None:
    """Each round's runs beside each other, and only what is demanded is judged."""
    runs = {"JSON, 19 of 19 columns": {OURS: [1.0, 2.0], "pyarrow.json": [4.0, 4.0], "arro3-io": [2.0, 2.0]}}
    result, bounds = main.result_of(runs, 2)
    assert result["cases"]["JSON, 19 of 19 columns"]["times_ours"]["pyarrow.json"] == {"median": 3, "min": 2, "max": 4}
    assert [(bound.value, bound.holds) for bound in bounds] == [(3.0, True)]


def test_other_rows_are_told() -> None:
    """A decoder that is wrong is not measured."""
    truth = pa.table({"dep_delay": pa.array([1, 2], pa.int32())})
    wrong = Side("somebody", "JSON", "dep_delay INT", lambda batch: pa.table({"dep_delay": pa.array([1] * len(batch))}))
    with pytest.raises(SideError, match="somebody has other rows of JSON, 1 of 19 columns"):
        main._check(wrong, truth, pa.array([b"", b""]))


def test_the_schemas_are_of_all_columns() -> None:
    """As the demo's records have them."""
    assert sides.schema(flights.FIELDS).names == list(flights.NAMES)
    assert len(sides.avro_schema(sides.SOME)["fields"]) == 5
