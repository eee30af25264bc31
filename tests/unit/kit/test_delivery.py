"""The delivery checker can fail: each way of getting it wrong is reported as what it is."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.kit.delivery import (
    DELIVERED,
    HELD,
    check,
    crc,
    from_parquet,
    measured,
    rows,
    rows_of_partitions,
    table,
)

RECORDS = [("t", partition, offset, 10, 1000 + offset) for partition in (0, 1) for offset in range(4)]
EXPECTED = table(RECORDS, HELD)


def _delivered(*batches: list[tuple[str, int, int, int, int]]) -> pa.Table:
    rows = [(*row, number) for number, batch in enumerate(batches) for row in batch]
    return table(rows, DELIVERED)


def test_an_exact_delivery_passes() -> None:
    """Every record once, unchanged, over two batches in order."""
    first = [row for row in RECORDS if row[2] < 2]
    second = [row for row in RECORDS if row[2] >= 2]
    report = check(_delivered(first, second), EXPECTED)
    report.assert_exact()
    assert (report.records, report.rows) == (8, 8)


@pytest.mark.parametrize(
    ("batches", "kind", "places"),
    [
        ([RECORDS[1:]], "lost", [("t", 0, 0)]),
        ([], "lost", [row[:3] for row in RECORDS]),
        ([[*RECORDS, RECORDS[3]]], "duplicated", [("t", 0, 3)]),
        ([RECORDS, [RECORDS[3]]], "duplicated", [("t", 0, 3)]),
        ([RECORDS, [RECORDS[3]]], "disordered", [("t", 0, 3)]),
        ([RECORDS[2:], RECORDS[:2]], "disordered", [("t", 0, 0)]),
        ([[*RECORDS, ("t", 1, 99, 10, 7)]], "foreign", [("t", 1, 99)]),
        ([[*RECORDS[1:], ("t", 0, 0, 10, 1)]], "changed", [("t", 0, 0)]),
    ],
)
def test_what_is_wrong_is_found(
    batches: list[list[tuple[str, int, int, int, int]]], kind: str, places: list[tuple[str, int, int]]
) -> None:
    """Records that are missing, doubled in one batch or over two, out of order, nobody's, or of other bytes."""
    report = check(_delivered(*batches), EXPECTED)
    assert getattr(report, kind) == places
    with pytest.raises(AssertionError, match=f"{len(places)} {kind}: t-{places[0][1]}@{places[0][2]}"):
        report.assert_exact()


def test_one_flipped_bit_is_found(tmp_path: Path) -> None:
    """From the bytes of a record to the verdict, through the file that a sink wrote."""
    held = table([("t", 0, 0, *measured(b"k", b"value"))], HELD)
    (tmp_path / "batch_id=0").mkdir()
    for value, exact in ((b"value", True), (b"vamue", False)):
        columns = {"topic": ["t"], "partition": [0], "offset": [0], "key": [b"k"], "value": [value]}
        pq.write_table(pa.table(columns), tmp_path / "batch_id=0" / "part-0.parquet")
        assert check(from_parquet(tmp_path), held).exact is exact


def test_null_and_empty_have_different_checksums() -> None:
    """Keys and values that are null, empty, or moved from one to the other tell apart."""
    kinds = [None, b"", b"a"]
    assert len({crc(key, value) for key in kinds for value in kinds}) == len(kinds) ** 2


def test_parquet_batches_are_read_back(tmp_path: Path) -> None:
    """The batch id comes from the folder; a sink that wrote nothing is empty."""
    assert (from_parquet(tmp_path).num_rows, rows(tmp_path), rows_of_partitions(tmp_path)) == (0, 0, {})
    columns = {"topic": ["t"], "partition": [1], "offset": [5], "key": pa.array([None], pa.binary()), "value": [b"v"]}
    (tmp_path / "batch_id=7").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "batch_id=7" / "part-0.parquet")
    assert from_parquet(tmp_path).to_pylist() == [
        {"topic": "t", "partition": 1, "offset": 5, "size": 1, "crc": crc(None, b"v"), "batch_id": 7}
    ]
    assert (rows(tmp_path), rows_of_partitions(tmp_path)) == (1, {1: 1})


def test_parquet_batches_are_read_while_they_are_written(tmp_path: Path) -> None:
    """What a task has not committed is not there yet, and what is taken away after it was listed is there no more."""
    columns = {"topic": ["t"], "partition": [1], "offset": [5], "key": [b"k"], "value": [b"v"]}
    attempts, over = tmp_path / "batch_id=0" / "_temporary" / "0", threading.Event()
    attempts.mkdir(parents=True)
    (tmp_path / "batch_id=0" / "part-1.parquet").symlink_to(tmp_path / "taken away")
    pq.write_table(pa.table(columns), tmp_path / "batch_id=0" / "part-2.parquet")
    assert (rows(tmp_path), rows_of_partitions(tmp_path)) == (1, {1: 1})

    def come_and_go() -> None:
        while not over.is_set():
            for number in range(20):
                (attempts / f"task_{number}").mkdir()
            for number in range(20):
                (attempts / f"task_{number}").rmdir()

    committer = threading.Thread(target=come_and_go)
    committer.start()
    try:
        assert [from_parquet(tmp_path)["offset"].to_pylist() for _ in range(200)] == [[5]] * 200
    finally:
        over.set()
        committer.join(10)
