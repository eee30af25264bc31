"""How a column becomes the bytes of records, before they are written: the format's options and the column's type as one value.

A column can be written by a schema if it has the type that the same schema has when it is read, or a part of it.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.formats import RAW, Decoding, Format, with_schema
from sparkcohort.runtime.values.types import INT, ColumnType, type_difference

LOOKUP: Final = "lookup"


class Encoding(NamedTuple):
    """The options of one format, for a ``part``: key or value.

    ``records`` is what the records' reader has to know.  ``type`` is the column's, which may lack fields of theirs.
    """

    part: str
    records: Decoding = RAW
    lookup: bool = False  # the registry's schema is looked up, else registered
    type: ColumnType = RAW.type

    @property
    def of_structs(self) -> bool:
        """Whether the column is a struct."""
        return self.records.of_structs


def for_column(encoding: Encoding, kind: ColumnType, spark_type: Any) -> Encoding:
    """The encoding of a column; ``spark_type`` is its type in Spark's own JSON, with what may be null.  Raises OptionError.

    >>> for_column(Encoding("value", Decoding(Format.JSON)), ColumnType("struct", (INT,), ("id",)), {}).type.names
    ('id',)
    """
    encoding = encoding._replace(type=_widened(kind))
    try:
        if encoding.records.format is Format.JSON:
            from sparkcohort.runtime.values.json_plan import plan  # noqa: PLC0415  most writes have none

            plan(encoding.type)
        elif not encoding.records.schema and not encoding.lookup:
            from sparkcohort.runtime.values.avro_of_spark import avro_schema  # noqa: PLC0415  as above

            text = json.dumps(avro_schema(spark_type))
            return encoding._replace(
                records=with_schema(encoding.part, encoding.records, text, origin="Spark's schema for it")
            )
    except ValueError as error:  # JsonPlanError, AvroSchemaError
        raise OptionError(_misfit(encoding, str(error))) from None
    if encoding.records.schema:
        check_column(encoding)
    return encoding


def check_column(encoding: Encoding) -> None:
    """Raises OptionError, with the field's path, where the column can't be written by the schema."""
    if difference := type_difference(encoding.type, _widened(encoding.records.type), encoding.part):
        raise OptionError(_misfit(encoding, difference))


def _misfit(encoding: Encoding, difference: str) -> str:
    return (
        f"option {encoding.part}.format={encoding.records.format}: the column {encoding.part} can't be written so: "
        f"{difference}: change the column with select(...), or the schema"
    )


def _widened(kind: ColumnType) -> ColumnType:
    """The type with INT for all that is shorter: Avro and Protobuf have nothing shorter."""
    if kind.kind in ("tinyint", "smallint"):
        return INT
    return kind._replace(children=tuple(map(_widened, kind.children)))
