"""``--bootstrap-server`` and ``--command-config``: what is refused, in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkcohort.cli.client_config import Mistake, client_config


def test_a_setting_of_the_client_is_refused_by_name(tmp_path: Path) -> None:
    """As the source's own options are, with the file; never its value."""
    path = tmp_path / "client.properties"
    path.write_text("security.protcol=SASL_SSL\nsasl.password=hunter2\n")
    with pytest.raises(Mistake) as refused:
        client_config("b:1", str(path))
    assert f"--command-config {path}: option kafka.security.protcol is unknown" in refused.value.message
    assert "hunter2" not in refused.value.message


def test_a_file_that_is_not_there() -> None:
    """Named."""
    with pytest.raises(Mistake, match="--command-config nofile can't"):
        client_config("b:1", "nofile")
