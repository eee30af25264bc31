"""The settings that the documents recommend, for whoever runs Spark here as a user would."""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "conf" / "spark-defaults.conf"


def recommended() -> dict[str, str]:
    """What ``conf/spark-defaults.conf`` sets, but for the interpreter, which is the caller's own."""
    lines = (line.split(maxsplit=1) for line in FILE.read_text().splitlines() if line.startswith("spark."))
    return {key: value.strip() for key, value in lines if not key.startswith("spark.pyspark.")}
