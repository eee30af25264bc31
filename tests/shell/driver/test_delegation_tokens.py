"""Spark's settings for delegation tokens are named, wherever an application has them from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sparkcohort.runtime.shell.driver import spark_settings

SERVERS = "spark.kafka.clusters.main.auth.bootstrap.servers"
LIST = "spark.sql.kafka.disallowedOptions"
PASSWORD = "spark.kafka.clusters.main.ssl.truststore.password"


def names(command: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    """Those of delegation tokens among the settings that are found."""
    warnings = spark_settings.token_warnings(spark_settings.of_command(command, environment))
    return warnings[0].partition(":")[0].split(", ") if warnings else []


def test_on_the_command_line() -> None:
    """As PySpark and spark-submit give them to the JVM, and to a JVM that is started otherwise."""
    command = [
        "java",
        f"-D{PASSWORD}=x",
        "org.apache.spark.deploy.SparkSubmit",
        "--conf",
        f"{SERVERS}=b:9092",
        "app.py",
    ]
    assert names(command, {}) == [SERVERS, PASSWORD]
    assert names(["java", f"--conf={SERVERS}=b:9092"], {}) == [SERVERS]
    assert names(["java", "--conf", "spark.app.name=spark.kafka.clusters.x", "--conf"], {}) == []


def test_in_the_files_that_spark_submit_reads(tmp_path: Path) -> None:
    """A file that is named takes the place of the defaults; one that can't be read is no error of ours."""
    defaults, named = tmp_path / "conf" / "spark-defaults.conf", tmp_path / "named.conf"
    defaults.parent.mkdir()
    defaults.write_text(f"spark.app.name it\n{SERVERS} b:9092\n")
    named.write_text(f"{PASSWORD}=x\n")
    assert names([], {"SPARK_HOME": str(tmp_path)}) == [SERVERS]
    assert names([], {"SPARK_CONF_DIR": str(defaults.parent)}) == [SERVERS]
    assert names(["java", "--properties-file", str(named)], {"SPARK_HOME": str(tmp_path)}) == [PASSWORD]
    named.write_bytes(b"\xff")
    assert names(["java", "--properties-file", str(named)], {}) == []
    assert names(["java", "--properties-file", str(tmp_path)], {}) == []


def test_the_command_line_counts_before_the_files(tmp_path: Path) -> None:
    """As in spark-submit; a value may have an equals sign in it."""
    (tmp_path / "spark-defaults.conf").write_text(f"{LIST} sasl.jaas.config,group.id\nspark.app.name it\n")
    environment = {"SPARK_CONF_DIR": str(tmp_path)}
    assert spark_settings.of_command([], environment)[LIST] == "sasl.jaas.config,group.id"
    found = spark_settings.of_command(["java", "--conf", f"{LIST}=a=b"], environment)
    assert (found[LIST], found["spark.app.name"]) == ("a=b", "it")
