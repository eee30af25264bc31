"""``register(spark)``: checks Spark's own Python before a query runs in it, and says what is wrong with it.

Spark looks for installed sources with another interpreter than the one that runs Python functions: it knows nothing of
``spark.pyspark.python`` (``PythonUtils.defaultPythonExec``).  A source that is registered by hand runs in that of the functions.
"""

from __future__ import annotations

import json
import logging
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource
from pyspark.sql.functions import udf
from pyspark.sql.types import StringType, StructField, StructType

from sparkcohort.runtime.errors import CohortError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("sparkcohort")

PROBE = "cohort-python"
ROOM = "sparkcohort.streaming.source"
EXECUTOR_TASKS = 32
_MISMATCH, _EXISTS = "PYTHON_VERSION_MISMATCH", "DATA_SOURCE_ALREADY_EXISTS"
_MISSING = ("DATA_SOURCE_NOT_FOUND", "DATA_SOURCE_NOT_EXIST")  # without Cohort's jar, and with it
_ANY_TOPIC = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "any"}
_ENV = (
    f"export PYSPARK_PYTHON={sys.executable} (this script's Python) before the session is made; on a cluster "
    "--conf spark.pyspark.python=…, a path to a Python of the same version that exists on every host"
)


class Interpreter(NamedTuple):
    """A Python that Spark has started: where it is, on which host, and what keeps it from Cohort ("" nothing)."""

    executable: str
    version: str
    host: str
    trouble: str


def register(spark: SparkSession, *, executors: bool = False) -> None:
    """Register ``format("cohort")`` with a session, in the Python that runs its functions, after a look at that Python.

    Spark gets Cohort's jar too, by ``ADD JAR``: the JVM then reads the rows of streams (option ``reader``).
    ``executors`` looks at that of executors too, with a job of 32 short tasks.  On a Spark Connect session nothing is
    registered: it asks whether the server has found the format by itself.  Raises CohortError, which names the
    interpreter, what is wrong with it, and what to set.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        _ask_server(spark)
        return
    driver = _on_driver(spark)
    if driver.trouble:
        raise CohortError(_no_cohort(driver, "the driver"))
    _register_source(spark)
    _add_jar(spark)
    for interpreter in _on_executors(spark) if executors else ():
        if interpreter.trouble:
            raise CohortError(_no_cohort(interpreter, f"the executor on {interpreter.host}"))


def _register_source(spark: SparkSession) -> None:
    """The source, by name: the front door is below Spark's side."""
    try:
        spark.dataSource.register(import_module(ROOM).CohortSource)
    except PySparkException as error:
        # Where Spark has the jar from another session, the name is taken; Spark's own search finds the Python of it.
        if error.getCondition() != _EXISTS:
            raise


def _add_jar(spark: SparkSession) -> None:
    """Make the reader in the JVM known; where a platform forbids jars, Python reads."""
    try:
        jar = import_module("sparkcohort.streaming.installation").jar_path()
        spark.sql(f"ADD JAR '{jar.as_uri()}'")
    except CohortError as error:
        log.warning("Python workers read the rows: %s", error)
    except (PySparkException, Py4JError) as error:
        log.warning("Spark takes no jar here, so Python workers read the rows: %s", _reason(str(error)))


# --- checking Spark's Pythons ----------------------------------------------------------------------


def _on_driver(spark: SparkSession) -> Interpreter:
    """The driver's Python of ``spark``.  Raises CohortError where it doesn't run at all."""
    try:
        # Spark looks in the active session whether a name is taken (DataSourceRegistration); this makes ``spark`` the active one.
        spark.createDataFrame([], "none int")
        spark.dataSource.register(_probe())
        (field,) = spark.read.format(PROBE).load().schema.fields
    except (PySparkException, Py4JError) as error:
        raise CohortError(_cannot_run(error, spark)) from error
    return Interpreter(**json.loads(field.metadata["python"]))


def _on_executors(spark: SparkSession) -> list[Interpreter]:
    """The Pythons of executors, each once.  Raises CohortError where one doesn't run at all."""
    look, room = _looking(), ROOM
    # By pickled rows: Spark's other ways into Python need pandas here.
    python = udf(lambda _: json.dumps(look(room)), "string", useArrow=False)
    try:
        tasks = spark.range(EXECUTOR_TASKS, numPartitions=EXECUTOR_TASKS)
        rows = tasks.select(python("id").alias("python")).collect()
    except (PySparkException, Py4JError) as error:
        raise CohortError(_cannot_run(error, spark)) from error
    return sorted({Interpreter(**json.loads(row["python"])) for row in rows})


def _looking() -> Any:
    """The function that looks, in a form that needs no Cohort where it runs: pickled by value, being a local one."""

    def look(room: str) -> dict[str, str]:
        import platform  # noqa: PLC0415
        import sys  # noqa: PLC0415  where it runs
        from importlib import import_module  # noqa: PLC0415

        trouble = ""
        try:
            import_module(room)
        except Exception as failed:  # noqa: BLE001  whatever it is
            trouble = f"{type(failed).__name__}: {failed}"
        version = ".".join(map(str, sys.version_info[:3]))
        return {"executable": sys.executable, "version": version, "host": platform.node(), "trouble": trouble[:300]}

    return look


def _probe() -> type[DataSource]:
    """A source whose schema is what its Python says of itself; made here, so it is pickled by value."""
    look, room, name = _looking(), ROOM, PROBE

    class Probe(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> StructType:
            return StructType([StructField("python", StringType(), metadata={"python": json.dumps(look(room))})])

    return Probe


# --- in words --------------------------------------------------------------------------------------


def _no_cohort(interpreter: Interpreter, place: str) -> str:
    """What is wrong with a Python that runs, but can't import Cohort."""
    missing = interpreter.trouble.startswith("ModuleNotFoundError: No module named 'sparkcohort'")
    problem = "has no Cohort" if missing else f"can't load Cohort ({interpreter.trouble})"
    return f"Spark's Python on {place} is {interpreter.executable} ({interpreter.version}): it {problem}. Do: install sparkcohort there, or {_ENV}"


def _cannot_run(error: Exception, spark: SparkSession) -> str:
    """What is wrong with a Python that doesn't run, or is of another version."""
    text, version = str(error), ".".join(map(str, sys.version_info[:2]))
    if _MISMATCH in text:
        problem = f"is of another version than this script's, which is {version} ({sys.executable})"
    else:
        problem = f"does not run: {_reason(text)}"
    return f"Spark's Python is {getattr(spark.sparkContext, 'pythonExec', 'python3')}: it {problem}. Do: {_ENV}"


def _reason(text: str) -> str:
    """The last cause in Spark's error, without Java's frames."""
    lines = [line.strip() for line in text.splitlines() if "Exception" in line or "Error" in line] or [text]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes[-1] if causes else lines[0])[:300]


def _ask_server(spark: SparkSession) -> None:
    """Whether the server of a Spark Connect session has found the format.  Raises CohortError."""
    try:
        # With the options that a read needs: what it refused would be an error of a hundred lines in the server's log.
        # A schema asks no broker.
        spark.read.format("cohort").options(**_ANY_TOPIC).load().schema  # noqa: B018
    except PySparkException as error:
        text = str(error)
        if any(missing in text for missing in _MISSING):
            raise CohortError(
                "the Spark Connect server has no format('cohort'): its Python has no Cohort. It is what PYSPARK_DRIVER_PYTHON, "
                "else PYSPARK_PYTHON, else the first python3 in PATH is where the server runs (spark.pyspark.python doesn't count). Do: "
                "install sparkcohort there, set PYSPARK_PYTHON to that Python, and start the server again"
            ) from error
        if "needs PySpark" in text or "can't be loaded in" in text:
            line = next(line for line in text.splitlines() if "format('cohort') " in line)
            raise CohortError(line[line.index("format('cohort') ") :]) from error
        raise CohortError(f"the Spark Connect server can't use format('cohort'): {_reason(text)}") from error
