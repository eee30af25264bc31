"""Spark's settings for Kafka's delegation tokens, ``spark.kafka.clusters.*``: nothing of ours goes by them, which is said.

Source: Spark's ``KafkaTokenSparkConf``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sparkcohort.runtime.shell.driver import spark_settings
from sparkcohort.runtime.text import printable

PREFIX: Final = "spark.kafka.clusters."


def warnings() -> list[str]:
    """One sentence where this application has such settings, with their names and the remedy; none of their values."""
    settings = names(spark_settings.of_application())
    if not settings:
        return []
    sentence = (
        f"{printable(', '.join(settings))}: no effect on format(cohort), since librdkafka logs in by no delegation token; give "
        "this query a login of its own, by kafka.security.protocol with kafka.sasl.mechanism and kafka.sasl.jaas.config "
        "(SCRAM, PLAIN, OAUTHBEARER) or a client certificate: docs/operate/logins.md"
    )
    return [sentence]


def names(settings: Iterable[str]) -> list[str]:
    """The names of these settings, in order."""
    return sorted(name for name in settings if name.startswith(PREFIX))
