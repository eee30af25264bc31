"""Where modules shipped with ``--py-files`` are found."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkFiles

from sparkcohort.streaming.pyfiles import pyfile_paths


def test_the_folder_and_its_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder for single modules, each archive by itself, in one order, and nothing else that was shipped."""
    for name in ("b.zip", "a.egg", "module.py", "data.csv"):
        (tmp_path / name).touch()
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    assert pyfile_paths() == [str(tmp_path), str(tmp_path / "a.egg"), str(tmp_path / "b.zip")]
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path / "streaming_job"))  # as PySpark's runner has it
    assert pyfile_paths() == [str(tmp_path), str(tmp_path / "a.egg"), str(tmp_path / "b.zip")]
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path / "no" / "such"))
    assert pyfile_paths() == []


def test_outside_of_sparks_workers_there_is_nothing() -> None:
    """Without a folder of shipped files nothing is added to the path."""
    assert SparkFiles._root_directory is None
    assert pyfile_paths() == []
