"""The least options of a stream, with others beside them."""

from __future__ import annotations

from typing import Final

import pytest

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.shell.options.parse import SourceOptions, parse

LEAST: Final = {"kafka.bootstrap.servers": "b1:9092", "subscribe": "orders", "group.id": "billing"}


def given(prefix: str = "", /, **more: str | None) -> SourceOptions:
    """What these come to; ``__`` stands for a dot, None takes an option away."""
    named = {f"{prefix}{name.replace('__', '.')}": value for name, value in more.items()}
    return parse({name: value for name, value in {**LEAST, **named}.items() if value is not None})


def refused(prefix: str = "", /, **more: str | None) -> str:
    """The message with which these are refused."""
    with pytest.raises(OptionError) as caught:
        given(prefix, **more)
    return str(caught.value)
