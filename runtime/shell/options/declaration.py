"""The declaration of an option: once, at the field that has its value.

A field of ``SourceOptions`` or ``SinkOptions`` that is declared with ``option(...)`` is parsed by its kind, checked by its bounds, listed in
docs/options.md and shown in ``conf/cohort.properties``.  ``table`` adds the options that are read together.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Final, Literal

Status = Literal["honoured", "accepted", "refused"]
Reads = Literal["both", "streams", "batches"]
NO_MAXIMUM: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Option:
    """One option, or a family whose name ends in ``.*``; ``default`` and ``example`` as a user would write them.

    ``accepted`` options give a warning, ``refused`` ones an error; both name what to use ``instead``.  Options of ``streams`` give a
    warning in a batch read, those of ``batches`` an error in a stream, those of ``none`` an error in any read; a write takes those that
    say so.  ``heading``: the option begins a section of the sample in ``conf/``.
    """

    name: str
    kind: str  # a key of ``values.READERS``
    doc: str
    default: str | None = None
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = NO_MAXIMUM
    status: Status = "honoured"
    instead: str = ""
    reads: Reads | Literal["none"] = "both"
    writes: bool = False
    example: str = ""
    heading: str = ""


def option(name: str, kind: str, doc: str, **more: Any) -> Any:
    """The field of a dataclass that has the value of this option."""
    return field(metadata={Option: Option(name, kind, doc, **more)})


stream_option: Final = partial(option, reads="streams")


def declared_options(owner: type) -> dict[str, Option]:
    """The options of a dataclass by the names of their fields, in their order."""
    return {each.name: each.metadata[Option] for each in fields(owner) if Option in each.metadata}
