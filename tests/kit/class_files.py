"""Constants in Java's class files, read without a JVM: what Spark's own classes call their options and versions.

Of the JVM's specification, chapter 4, the constant pool alone, and of the code those three bytes to six that put a constant into a field.
"""

from __future__ import annotations

import re
import struct
import zipfile
from pathlib import Path
from typing import Any, Final

# Tag of the pool: bytes behind it.  A string (1) has its length first; long and double (5, 6) take two places.
_SIZES: Final = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
_WIDE: Final = (5, 6)
# ldc, ldc_w or iconst_<n>, then putstatic or, on what aload_0 has put there, putfield.
_PUT: Final = re.compile(rb"(?:\x12(.)|\x13(..)|([\x02-\x08]))[\xb3\xb5](..)", re.DOTALL)


def constants(jar: Path, name: str) -> dict[str, str | int]:
    """What the class (``org/apache/…``) puts into its fields when it is loaded, by the fields' names; no other values."""
    with zipfile.ZipFile(jar) as archive:
        data = archive.read(f"{name}.class")
    pool = _pool(data)
    found: dict[str, str | int] = {}
    for short, wide, digit, field in (match.groups() for match in _PUT.finditer(data)):
        reference = pool.get(int.from_bytes(field, "big"))
        value: Any = digit[0] - 3 if digit else pool.get(int.from_bytes(short or wide, "big"))
        if isinstance(value, tuple) and value[0] == 8:
            value = pool[value[1]]
        if isinstance(reference, tuple) and reference[0] == 9 and isinstance(value, str | int):
            found[pool[pool[reference[2]][1]]] = value
    return found


def _pool(data: bytes) -> dict[int, Any]:
    """Strings as they are, numbers too, references as (tag, place, place)."""
    (count,) = struct.unpack_from(">H", data, 8)
    pool: dict[int, Any] = {}
    at, place = 10, 1
    while place < count:
        tag = data[at]
        if tag == 1:
            (size,) = struct.unpack_from(">H", data, at + 1)
            pool[place] = data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 2
        else:
            size = _SIZES[tag]
            places = struct.unpack_from(f">{size // 2}H", data, at + 1)
            pool[place] = struct.unpack_from(">i", data, at + 1)[0] if tag == 3 else (tag, *places)
        at += 1 + size
        place += 2 if tag in _WIDE else 1
    return pool
