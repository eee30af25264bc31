"""The data source ``cohort``: options in, schema and stream reader out.

Four kinds of processes import this before anything else can happen: the one that looks for sources, the one that makes
this one, the stream runner and the one that plans a read.  So each imports the rest when it is asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructField, StructType

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.columns import UserColumn, chosen_columns, unknown_fields, with_headers
from sparkcohort.streaming.data_types import column_type, data_type
from sparkcohort.streaming.reader_schemas import with_registered
from sparkcohort.streaming.spark_errors import message_first

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.options.source_options import SourceOptions
    from sparkcohort.streaming.reader import CohortStreamReader


class CohortSource(DataSource):
    """``spark.readStream.format("cohort")``: Kafka read as a consumer group.

    Options and schema are those of Spark's own Kafka source (``KafkaSourceProvider``), with ``group.id`` required.
    """

    _parsed: SourceOptions | None = None  # pickled with the source: later processes needn't parse them again

    def _source_options(self) -> SourceOptions:
        """The options, parsed.  Raises OptionError."""
        if self._parsed is None:
            from sparkcohort.runtime.shell.options import parse as source_options  # noqa: PLC0415  not to be found

            self._parsed = with_registered(source_options.parse(self.options))
        return self._parsed

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "cohort"

    @message_first
    def schema(self) -> StructType:
        """Spark's Kafka row, with ``headers`` when ``includeHeaders`` is true.  Raises OptionError for bad options."""
        columns = self._source_options().columns
        if why := unknown_fields(columns):
            raise OptionError(why)
        return StructType([StructField(each.name, data_type(each.type)) for each in columns])

    @message_first
    def streamReader(self, schema: StructType) -> CohortStreamReader:  # noqa: N802  PySpark's name
        """The reader of one query, whose schema may be the user's.  Raises OptionError for bad options or columns."""
        options = self._source_options()
        asked = [UserColumn(each.name, column_type(each.dataType), each.nullable) for each in schema.fields]
        columns = chosen_columns(asked, with_headers(options.columns))
        from sparkcohort.streaming.reader import CohortStreamReader  # noqa: PLC0415  not to be found, nor to be made

        return CohortStreamReader(options.with_columns(columns))

    @message_first
    def reader(self, schema: StructType) -> NoReturn:  # noqa: ARG002  PySpark's signature
        """Batch reads are refused with what to do instead."""
        raise OptionError(
            "format('cohort') reads streams: use spark.readStream, with .trigger(availableNow=True) for a bounded run "
            "(or spark.read.format('kafka') for a batch without a group)"
        )

    @message_first
    def writer(self, schema: Any, overwrite: bool) -> NoReturn:  # noqa: ARG002  PySpark's signature
        """Writing is refused with what to do instead."""
        raise OptionError("format('cohort') only reads: write with format('kafka') or inside foreachBatch")

    @message_first
    def streamWriter(self, schema: Any, overwrite: bool) -> NoReturn:  # noqa: N802  PySpark's signature
        """Writing is refused with what to do instead."""
        self.writer(schema, overwrite)
