"""The part ``values``: what is inside the records, as columns; only the columns that are asked for cross into the JVM."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

from tests.kit.registry import serving
from tools.bench.figures import Demand, Sample
from tools.bench.source import source, topics
from tools.bench.source.peers import COHORT, KAFKA_TUNED, ROW, Peer, View
from tools.bench.source.runs import Bench
from tools.bench.source.world import World, say
from tools.demo import flights

SOME = "dep_delay INT, carrier STRING, flight INT, origin STRING, distance INT"
AVRO_TYPES = {"INT": "int", "STRING": "string", "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"}}
BYTES, JSON, AVRO = "values-bytes", "values-json", "values-avro"
SUBJECT = "flights"
TITLE, COLUMNS = "All of a topic, steady batches", source.COLUMNS
FRAME = 5  # bytes of Confluent's: a zero, and the id of the writer's schema


def avro_schema(fields: str) -> dict[str, Any]:
    """Avro's schema of these columns, all optional."""
    pairs = (each.split() for each in fields.split(", "))
    columns = [{"name": name, "type": ["null", AVRO_TYPES[kind]], "default": None} for name, kind in pairs]
    return {"type": "record", "name": "Flight", "fields": columns}


@dataclass(frozen=True)
class Case:
    """One view of a topic, and what is demanded of it beside Spark's own source, tuned."""

    topic: str
    view: View
    rows_per_s: float
    cpu: float
    aims: tuple[float | None, float | None] = (None, None)  # of both
    truth: tuple[str, ...] = field(
        default=()
    )  # expressions over the records as they were made; (): places are compared


def _json(name: str, fields: str) -> View:
    """Flights as columns: by the member, and by Spark's own function."""
    return View(
        name,
        schema=f"value STRUCT<{fields}>",
        options={"value.format": "json", "value.timezone": "UTC"},
        of_kafka=(f"from_json(cast(value as string), '{fields}') as value",),
        selected=("value.*",),
    )


def _avro(name: str, fields: str) -> View:
    """As above, behind Confluent's frame; Spark's own is given the schema of the fields that are wanted, too."""
    writer, reader = json.dumps(avro_schema(flights.FIELDS)), json.dumps(avro_schema(fields))
    return View(
        name,
        schema=f"value STRUCT<{fields}>",
        options={"value.format": "avro", "value.subject": SUBJECT},
        of_kafka=(f"from_avro(substring(value, {FRAME + 1}), '{writer}', map('avroSchema', '{reader}')) as value",),
        selected=("value.*",),
    )


def _columns(fields: str) -> tuple[str, ...]:
    return tuple(f"flight.{each.split()[0]}" for each in fields.split(", "))


VALUE = View("value alone", schema="value BINARY", of_kafka=("value",))
FEW_JSON = _json("JSON, 5 of 19 columns", SOME)
SELECTED_JSON = replace(
    _json("JSON, 19 columns, 5 selected", flights.FIELDS),
    selected=tuple(f"value.{each.split()[0]}" for each in SOME.split(", ")),
)
CASES = (
    Case(BYTES, ROW, 1.5, 0.75, (1.8, 0.55)),
    Case(BYTES, VALUE, 1.8, 0.65, (2.2, 0.55), ("value",)),
    Case(JSON, _json("JSON, 19 columns", flights.FIELDS), 4.0, 0.3, (5.0, 0.25), ("flight.*",)),
    Case(JSON, FEW_JSON, 4.5, 0.28, (5.0, 0.25), _columns(SOME)),
    Case(JSON, SELECTED_JSON, 4.0, 0.3, (5.0, 0.25), _columns(SOME)),
    Case(AVRO, _avro("Avro, 19 columns", flights.FIELDS), 2.7, 0.7, (3.5, 0.55), ("flight.*",)),
    Case(AVRO, _avro("Avro, 5 of 19 columns", SOME), 2.7, 0.75, (3.5, 0.55), _columns(SOME)),
)


def measure(world: World) -> list[Sample]:
    """Both sources ``rounds`` times on each view, after their rows were compared with what was written."""
    found: list[Sample] = []
    with (
        world.application(world.plan.masters[0]) as bench,
        tempfile.TemporaryDirectory() as folder,
        serving() as registry,
    ):
        made = {BYTES: topics.rows(bench.spark, topics.Shape(), world.plan.records, topics.PARTITIONS)}
        places = source.fill(bench, BYTES, topics.Shape(), world.plan.records)
        years = max(world.plan.records // 2 // flights.FLIGHTS, 1)
        records = dict.fromkeys((JSON, AVRO), years * flights.FLIGHTS) | {BYTES: world.plan.records}
        made[JSON] = _flights(bench, Path(folder), years)
        schema = json.dumps(avro_schema(flights.FIELDS))
        frame = f"X'00', X'{registry.register(SUBJECT, json.loads(schema)):08x}'"
        made[AVRO] = made[JSON].withColumn("value", expr(f"concat({frame}, to_avro(flight, '{schema}'))"))
        for topic in (JSON, AVRO):
            say(f"filling a topic: {records[topic]:,} flights, {topic}")
            topics.write(made[topic].drop("flight"), bench.broker, topic, records[topic])
        for case in CASES:
            say(f"-- {case.view.name}")
            asked = {"schema.registry.url": registry.url} if case.topic == AVRO else {}
            view = replace(case.view, options={**case.view.options, **asked})
            found += _runs(world, bench, replace(case, view=view), made[case.topic], records[case.topic], places)
    return found


def _runs(world: World, bench: Bench, case: Case, made: DataFrame, records: int, places: topics.Sums) -> list[Sample]:
    written = topics.values_of(topics.valued(made.selectExpr(*case.truth)).collect()) if case.truth else None

    def check(peer: Peer) -> None:
        if written is None:
            bench.check(peer, case.topic, places)
        else:
            bench.check_values(peer, case.topic, written, case.view)

    peers = world.chosen(COHORT, KAFKA_TUNED)
    name, rounds = case.view.name, world.plan.rounds
    return source.checked_rounds(bench, name, peers, case.topic, records, rounds, check, case.view)


def _flights(bench: Bench, folder: Path, years: int) -> DataFrame:
    """All flights, so many times: key, value as JSON, partition, and the flight itself."""
    file = folder / "flights.json.gz"
    with gzip.open(file, "wb", compresslevel=1) as out:
        for flight in flights.events():
            out.write(flight.value + b"\n")
    year = bench.spark.read.schema("value STRING").text(str(file)).repartition(8).cache()
    year = year.crossJoin(bench.spark.range(years))
    return year.selectExpr(
        "cast(value as binary) as value",
        "cast(null as string) as key",
        f"cast(pmod(hash(value, id), {topics.PARTITIONS}) as int) as partition",
        f"from_json(value, '{flights.FIELDS}') as flight",
    )


def demands(cases: Sequence[str]) -> list[Demand]:
    """More rows a second than Spark's own tuned source, for less CPU."""
    found: list[Demand] = []
    for case in (each for each in CASES if each.view.name in cases):
        name, tuned = case.view.name, KAFKA_TUNED.name
        rates, cpu = case.aims
        found.append(Demand(name, "rows_per_s", "rows/s", case.rows_per_s, beside=tuned, at_least=True, aim=rates))
        found.append(Demand(name, "cpu_s_per_million", "CPU", case.cpu, beside=tuned, aim=cpu))
    few, selected = FEW_JSON.name, SELECTED_JSON.name
    if few in cases and selected in cases:
        found.append(Demand(selected, "cpu_s_per_million", "CPU : a load of 5 columns", 1.1, beside_case=few))
    return found
