"""The data source ``cohort``: options in; schema, readers and writers out.

Four kinds of processes import this module: the one that looks for sources, the one that makes this one, the stream runner
and the one that plans a read.  So each imports the rest when it needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructField, StructType

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.columns import UserColumn, chosen_columns, unknown_fields, with_headers
from sparkcohort.streaming.data_types import column_type, data_type
from sparkcohort.streaming.reader_schemas import with_registered
from sparkcohort.streaming.spark_errors import message_first

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.options.declaration import Reads
    from sparkcohort.runtime.shell.options.source_options import SourceOptions
    from sparkcohort.runtime.values.columns import Columns
    from sparkcohort.runtime.values.encodings import Encoding
    from sparkcohort.streaming.batch_reader import CohortBatchReader
    from sparkcohort.streaming.reader import CohortStreamReader
    from sparkcohort.streaming.writer import CohortBatchWriter, CohortStreamWriter, RowWriter


class CohortSource(DataSource):
    """``spark.readStream.format("cohort")`` reads Kafka as a consumer group; ``spark.read`` reads ranges without a group; both write.

    Options, schema and columns are those of Spark's own Kafka source (``KafkaSourceProvider``), with ``group.id`` required for streams.
    """

    _parsed: Mapping[Reads, SourceOptions] = {}  # pickled with the source: later processes needn't parse them again

    def _options(self, reads: Reads) -> SourceOptions:
        """The options of a stream or a batch read, parsed.  Raises OptionError."""
        if reads not in self._parsed:
            from sparkcohort.runtime.shell.options.parse import parse  # noqa: PLC0415  not to be found

            options = parse(self.options, reads)
            _check_allowed(options.kafka_names)
            other = next(iter(self._parsed.values()), None)
            # The registry is asked once per source: the rows must have the schema that Spark got from schema().
            options = replace(options, columns=other.columns, notes=other.notes) if other else with_registered(options)
            self._parsed = {**self._parsed, reads: options}
        return self._parsed[reads]

    def _columns(self) -> Columns:
        """The columns of a stream or a batch read: Spark asks before it says which.  Raises OptionError."""
        try:
            return self._options("streams").columns
        except OptionError as of_a_stream:
            try:
                return self._options("batches").columns
            except OptionError as of_a_batch:
                if str(of_a_stream) == str(of_a_batch):
                    raise
                raise OptionError(f"{of_a_stream}; as a batch read: {of_a_batch}") from None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "cohort"

    @message_first
    def schema(self) -> StructType:
        """Spark's Kafka row, with ``headers`` when ``includeHeaders`` is true.  Raises OptionError for bad options."""
        columns = self._columns()
        if problem := unknown_fields(columns):
            raise OptionError(problem)
        return StructType([StructField(each.name, data_type(each.type)) for each in columns])

    @message_first
    def streamReader(self, schema: StructType) -> CohortStreamReader:  # noqa: N802  PySpark's name
        """The reader of one query, whose schema may be the user's.  Raises OptionError for bad options or columns."""
        from sparkcohort.streaming.reader import CohortStreamReader  # noqa: PLC0415  not to be found, nor to be made

        return CohortStreamReader(_with_columns(self._options("streams"), schema))

    @message_first
    def reader(self, schema: StructType) -> CohortBatchReader:
        """The reader of one batch read, whose schema may be the user's.  Raises OptionError for bad options or columns."""
        from sparkcohort.streaming.batch_reader import CohortBatchReader  # noqa: PLC0415  likewise
        from sparkcohort.streaming.batch_scan import scan_of  # noqa: PLC0415  likewise

        options, scan = self._options("batches"), scan_of(schema)
        # A scan's schema is Spark's, and says nothing of what the user asked for.
        options = replace(options, columns=_columns(options, schema)) if scan else _with_columns(options, schema)
        return CohortBatchReader(options, scan)

    @message_first
    def writer(self, schema: StructType, overwrite: bool) -> CohortBatchWriter:
        """The writer of one DataFrame.  Raises OptionError for bad options or columns."""
        from sparkcohort.streaming.writer import CohortBatchWriter  # noqa: PLC0415  likewise

        if overwrite:
            raise OptionError(
                "mode overwrite is not supported: nothing that is in a topic is written over; use .mode('append')"
            )
        rows = self._row_writer(schema)
        if rows.options.is_exactly_once and not rows.options.app_id:
            raise OptionError(
                "option delivery.guarantee=exactly-once of a batch write wants txn.app.id and txn.version: Spark has no other word for "
                "which run this is, and in foreachBatch none for which batch"
            )
        return CohortBatchWriter(rows.with_new_run())

    @message_first
    def streamWriter(self, schema: StructType, overwrite: bool) -> CohortStreamWriter:  # noqa: ARG002, N802  PySpark's signature
        """The writer of one query.  Output mode complete (``overwrite``) writes each result anew, as Spark's own sink does.

        Raises OptionError for bad options or columns.
        """
        from sparkcohort.streaming.writer import CohortStreamWriter, commits_only  # noqa: PLC0415  likewise

        rows = self._row_writer(schema)
        if rows.options.is_exactly_once:
            if rows.options.app_id:
                raise OptionError(
                    "option txn.app.id is for batch writes: a stream's batches have numbers, leave it out"
                )
            if str(self.options.get("asyncProgressTrackingEnabled", "")).lower() == "true":
                raise OptionError(
                    "option asyncProgressTrackingEnabled does not go with delivery.guarantee=exactly-once: Spark would begin batches "
                    "before it knows that those before are committed; leave one out"
                )
        return CohortStreamWriter(rows if commits_only() else rows.with_new_run())

    def _row_writer(self, schema: StructType) -> RowWriter:
        from sparkcohort.runtime.shell.options.parse_sink import parse_sink  # noqa: PLC0415  likewise
        from sparkcohort.runtime.values.sink_columns import sink_columns  # noqa: PLC0415  likewise
        from sparkcohort.streaming.writer import RowWriter, log_warning  # noqa: PLC0415  likewise

        options = parse_sink(self.options)
        _check_allowed(options.kafka_names)
        for warning in (*options.producer.warnings, *options.warnings):
            log_warning(warning)
        types = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        encodings = {each.part: each for each in (options.key, options.value)}
        structs = [part for part, each in encodings.items() if each.of_structs]
        columns = sink_columns(types, has_topic=bool(options.topic), structs=structs)
        for part in structs:
            if part in columns:
                encodings[part] = _typed(encodings[part], schema.fields[columns[part]])
        return RowWriter(replace(options, key=encodings["key"], value=encodings["value"]), columns)


def _typed(encoding: Encoding, column: StructField) -> Encoding:
    """The encoding of a column.  Raises OptionError for a type that it can't write."""
    from sparkcohort.runtime.values.encodings import for_column  # noqa: PLC0415  most writes have none

    nullable = StructType([column]).toNullable().fields[0].dataType
    return for_column(encoding, column_type(nullable), column.dataType.jsonValue())


def _check_allowed(kafka_names: Iterable[str]) -> None:
    """Raises OptionError where the operator's list has one of these (``spark.sql.kafka.disallowedOptions``)."""
    from sparkcohort.runtime.shell.driver import spark_settings  # noqa: PLC0415  not to be found
    from sparkcohort.runtime.shell.options.disallowed import SETTING, check_allowed  # noqa: PLC0415

    check_allowed(kafka_names, spark_settings.of_application().get(SETTING, ""))


def _with_columns(options: SourceOptions, schema: StructType) -> SourceOptions:
    """The options with the columns of a schema that may be the user's.  Raises OptionError."""
    return options.with_columns(_columns(options, schema))


def _columns(options: SourceOptions, schema: StructType) -> Columns:
    """The columns of a schema.  Raises OptionError."""
    user_columns = [UserColumn(each.name, column_type(each.dataType), each.nullable) for each in schema.fields]
    return chosen_columns(user_columns, with_headers(options.columns))
