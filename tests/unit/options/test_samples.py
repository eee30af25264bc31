"""The samples in ``conf/`` say what the table of options says."""

from __future__ import annotations

import re
from pathlib import Path

from sparkcohort.runtime.shell.options.parse import parse
from sparkcohort.runtime.shell.options.parse_sink import parse_sink
from sparkcohort.runtime.shell.options.security_settings import SENSITIVE
from sparkcohort.runtime.shell.options.table import OPTIONS
from sparkcohort.runtime.values.formats import OF_STRUCTS

CONF = Path(__file__).resolve().parents[3] / "conf"
WRITES = {"kafka.bootstrap.servers": "b1:9092"}
SECOND_WAYS = (
    "subscribePattern",
    "assign",
    "dead.letter.topic",  # as the next ones
    "kafka.sasl.oauthbearer.provider",  # with another mechanism than the sample's
    *(f"{of}.{name}" for of in ("key", "value") for name in OF_STRUCTS),  # with other formats than the default
)


def _lines() -> dict[str, str]:
    """name=value of the sample, commented out or not."""
    lines = [
        line for line in (CONF / "cohort.properties").read_text().splitlines() if not line.startswith(("##", "# "))
    ]
    pairs = [line.removeprefix("#").partition("=") for line in lines if "=" in line]
    return {name: value for name, _, value in pairs}


def test_the_sample_is_accepted() -> None:
    """As it stands, and with every default and example taken in."""
    live = [line for line in (CONF / "cohort.properties").read_text().splitlines() if line and line[0] != "#"]
    assert parse(dict(line.split("=", 1) for line in live)).group_id == "billing"
    of_writes = {option.name for option in OPTIONS if option.reads == "none"}
    lines = _lines()
    together = parse_sink({**WRITES, **{name: lines[name] for name in of_writes - {*SECOND_WAYS}}})
    assert (together.topic, together.sink_id, together.app_version) == ("billed", "billed-totals", 20261128)
    no_reads = {*SECOND_WAYS, *of_writes}
    plain = {name: value for name, value in lines.items() if name not in no_reads and ".ssl." not in name}
    of_batches = {option.name for option in OPTIONS if option.reads == "batches"}
    assert (
        parse({name: value for name, value in plain.items() if name not in of_batches}).kafka["sasl.username"]
        == "billing"
    )
    assert parse({**plain, "startingOffsets": "earliest"}, "batches").ending_timestamp == 1_700_003_600_000


def test_spark_defaults_redact_what_librdkafka_calls_sensitive() -> None:
    """The sample's pattern covers the names that Spark's own misses."""
    text = (CONF / "spark-defaults.conf").read_text()
    for key in ("spark.redaction.regex", "spark.sql.redaction.options.regex"):
        (pattern,) = [line.split(None, 1)[1] for line in text.splitlines() if line.startswith(key)]
        assert _misses(pattern) == []


def _misses(pattern: str) -> list[str]:
    return [name for name in sorted(SENSITIVE) if not re.search(pattern, name)]
