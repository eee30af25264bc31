"""Commands that take a folder of this host are not given one elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.command import cohort


@pytest.mark.parametrize("command", ["rules write", "dashboards write"])
@pytest.mark.parametrize("place", ["s3://AKIA:hunter2@bucket/p", ""])
def test_a_uri_is_refused(command: str, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nor is the working directory taken for a folder without a name."""
    monkeypatch.chdir(tmp_path)
    said = cohort(*command.split(), place)
    assert (said.returncode, said.stdout, said.stderr.count("\n")) == (2, "", 1)
    assert "give the path of a" in said.stderr
    assert "hunter2" not in said.stderr
    assert not list(tmp_path.iterdir())
