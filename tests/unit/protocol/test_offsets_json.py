"""Offsets as JSON: whatever a text holds, what comes out is offsets or MalformedOffsets, in a short line."""

from __future__ import annotations

import pytest

from sparkcohort.runtime.protocol.offsets_json import MalformedOffsets, load, read


@pytest.mark.parametrize("form", ["{}", '{{"t":{}}}', '{{"t":{{"0":{}}}}}'])
def test_what_is_nested_is_refused_at_every_depth(form: str) -> None:
    """Also where the text can just be read, and its value just not be written into the message any more."""
    for depth in range(1, 1_100):
        with pytest.raises(MalformedOffsets) as caught:
            read(load(form.format("[" * depth + "]" * depth), "here"), "here", 0)
        assert len(str(caught.value)) < 250
