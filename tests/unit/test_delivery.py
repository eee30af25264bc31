"""The delivery checker can fail: each way of getting it wrong is reported as what it is."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.delivery import DELIVERED, HELD, check, crc, from_json, from_parquet, json_rows, table

RECORDS = [("t", partition, offset, 1000 + offset) for partition in (0, 1) for offset in range(4)]
EXPECTED = table(RECORDS, HELD)


def _delivered(*batches: list[tuple[str, int, int, int]]) -> pa.Table:
    rows = [(*row, number) for number, batch in enumerate(batches) for row in batch]
    return table(rows, DELIVERED)


def test_an_exact_delivery_passes() -> None:
    """Every record once, unchanged, over two batches in order."""
    first = [row for row in RECORDS if row[2] < 2]
    second = [row for row in RECORDS if row[2] >= 2]
    report = check(_delivered(first, second), EXPECTED)
    report.assert_exact()
    assert (report.records, report.rows) == (8, 8)


def test_a_lost_record_is_found() -> None:
    """A record the broker holds and the sink doesn't is lost."""
    report = check(_delivered(RECORDS[1:]), EXPECTED)
    assert report.lost == [("t", 0, 0)]
    with pytest.raises(AssertionError, match="1 lost: t-0@0"):
        report.assert_exact()


def test_a_double_is_found_in_one_batch_or_over_two() -> None:
    """A record delivered twice is duplicated, whether one batch or two delivered it."""
    assert check(_delivered([*RECORDS, RECORDS[3]]), EXPECTED).duplicated == [("t", 0, 3)]
    again = check(_delivered(RECORDS, [RECORDS[3]]), EXPECTED)
    assert again.duplicated == [("t", 0, 3)]
    assert again.disordered == [("t", 0, 3)]
    assert not again.exact


def test_a_record_that_the_broker_does_not_hold_is_foreign() -> None:
    """What nobody produced (or was aborted) is reported."""
    assert check(_delivered([*RECORDS, ("t", 1, 99, 7)]), EXPECTED).foreign == [("t", 1, 99)]


def test_changed_bytes_are_found() -> None:
    """A record whose bytes differ from the broker's is changed, and its partition's checksum with it."""
    report = check(_delivered([*RECORDS[1:], ("t", 0, 0, 1)]), EXPECTED)
    assert report.changed == [("t", 0, 0)]
    assert report.checksums["t", 0] != report.expected_checksums["t", 0]
    assert report.checksums["t", 1] == report.expected_checksums["t", 1]


def test_batches_out_of_order_are_found() -> None:
    """A later batch has to begin after the end of every batch before, per partition."""
    swapped = check(_delivered(RECORDS[2:], RECORDS[:2]), EXPECTED)
    assert swapped.disordered == [("t", 0, 0)]
    assert not swapped.exact


def test_nothing_delivered_is_everything_lost() -> None:
    """An empty sink does not pass."""
    assert len(check(_delivered(), EXPECTED).lost) == len(RECORDS)


def test_null_and_empty_have_different_checksums() -> None:
    """Keys and values that are null, empty, or moved from one to the other tell apart."""
    kinds = [None, b"", b"a"]
    assert len({crc(key, value) for key in kinds for value in kinds}) == len(kinds) ** 2


def test_parquet_batches_are_read_back(tmp_path: Path) -> None:
    """The batch id comes from the folder; a sink that wrote nothing is empty."""
    assert from_parquet(tmp_path).num_rows == 0
    columns = {"topic": ["t"], "partition": [1], "offset": [5], "key": pa.array([None], pa.binary()), "value": [b"v"]}
    (tmp_path / "batch_id=7").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "batch_id=7" / "part-0.parquet")
    assert from_parquet(tmp_path).to_pylist() == [
        {"topic": "t", "partition": 1, "offset": 5, "crc": crc(None, b"v"), "batch_id": 7}
    ]


def test_json_batches_are_read_back(tmp_path: Path) -> None:
    """Rows come in order of batch and place, their bytes decoded for the checksum."""
    value = base64.b64encode(b"v").decode()
    rows = [{"batch_id": 1, "topic": "t", "partition": 0, "offset": at, "key": None, "value": value} for at in (1, 0)]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [row["offset"] for row in json_rows(tmp_path)] == [0, 1]
    assert from_json(tmp_path)["crc"].to_pylist() == [crc(None, b"v")] * 2
