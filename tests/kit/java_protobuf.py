"""Google's Java library as ``from_protobuf`` uses it, in a JVM of its own.

Spark's jar for ``from_protobuf`` is not where the other jars come from; the library that it is made of is in PySpark, and
``JavaProtobuf.java`` has its rules: what is null, and which records are bad.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.kit.java_program import JavaProgram
from tests.kit.spark_avro import sorted_maps


class JavaProtobuf(JavaProgram):
    """One JVM that answers any number of questions; a context manager.  Needs a Java with its compiler."""

    source = Path(__file__).with_name("java") / "JavaProtobuf.java"

    def schema(self, descriptor_set: bytes, message: str = "p.M0") -> str:
        """What the next records are; "ok", or why not."""
        return self.ask(f"set {descriptor_set.hex()} {message}")

    def record(self, data: bytes) -> Any:
        """The value as ``spark_avro.shown`` has it; None when the record is bad."""
        answer = self.ask(f"record {data.hex()}")
        if answer.startswith("no "):
            raise ValueError(answer)
        return None if answer.startswith("bad ") else sorted_maps(json.loads(answer))
