"""What an option is: a row of ``table``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "string", "list", "JSON", "integer", "size", "number", "boolean", "milliseconds", "duration", "choice", "offsets"
]
Status = Literal["honoured", "accepted", "refused"]
Reads = Literal["both", "streams", "batches"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option; ``default`` as a user would write it.

    ``accepted`` ones only warn, ``refused`` ones are an error; both say what to use ``instead``.  Options of ``streams``
    only warn in a batch read, those of ``batches`` are an error in a stream.
    """

    name: str
    kind: Kind
    default: str | None
    doc: str
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int = 2**63 - 1
    status: Status = "honoured"
    instead: str = ""
    reads: Reads = "both"
