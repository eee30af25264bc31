"""JSON's records into columns, parsed by yyjson; see ``sparkcohort.runtime.shell.values.json_decoder``."""

from collections.abc import Callable
from typing import Any

class JsonDecoder:
    """Reads columns of JSON objects into a tree of columns; for one thread at a time, else RuntimeError.

    ``fields`` has four 32-bit numbers for each column, parents first: its kind, how many columns are inside of it, and a
    decimal's precision and scale; ``names`` has their names, a zero behind each.  ValueError where these make no struct.
    ``most``: bytes or items of a column, as many as 32-bit offsets can tell.  ``zone``: of texts that name none, pairs of 64-bit
    numbers as in ``runtime.values.json.zone``; none is UTC.
    """

    def __init__(self, fields: bytes, names: bytes, most: int = ..., zone: bytes = ...) -> None: ...
    def decode(
        self, validity: Any, offsets: Any, data: Any, first: int, rows: int, take: Callable[[int], Any]
    ) -> tuple[Any, list[tuple[int, int, int]]]:
        """Read ``rows`` rows, from the ``first`` on, of a binary array's buffers, without the interpreter's lock.

        ``take`` is called with the address of an ArrowArray (C data interface).  Returns what that gives, and the rows
        at fault as (row, reason, byte or column).  OverflowError where a column would have more than ``most``.
        """
