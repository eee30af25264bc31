"""Reader schemas from a schema registry, fetched once, when the source is made.

They are stored in the options: every process of the query reads with the same schema, also after the registry has a newer
version.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sparkcohort.runtime.errors import OptionError
from sparkcohort.runtime.values.columns import CORRUPT, Column
from sparkcohort.runtime.values.formats import with_schema

if TYPE_CHECKING:
    from sparkcohort.runtime.shell.options.source_options import SourceOptions


def with_registered(options: SourceOptions) -> SourceOptions:
    """The options with the schemas that a registry has for them.  Raises OptionError, RegistryError."""
    if not any(_is_missing(each) for each in options.columns):
        return options
    columns, notes = zip(*(_registered(options, each) for each in options.columns), strict=True)
    return replace(options, columns=columns, notes=tuple(filter(None, notes)))


def _is_missing(column: Column) -> bool:
    return bool(column.decoding.registry) and not column.decoding.schema and column.field in CORRUPT


def _registered(options: SourceOptions, column: Column) -> tuple[Column, str]:
    if not _is_missing(column):
        return column, ""
    from sparkcohort.runtime.shell.values.registry_settings import read_settings  # noqa: PLC0415
    from sparkcohort.runtime.shell.values.schema_registry import SchemaRegistry  # noqa: PLC0415  rarely

    decoding, part = column.decoding, column.field.name.lower()
    topics = {*options.subscription.topics, *(tp.topic for tp in options.subscription.partitions)}
    if not decoding.subject and len(topics) != 1:
        raise OptionError(
            f"option {part}.format=avro with schema.registry.url: records of several topics are read with one schema, so "
            f"set {part}.subject to the subject that has it, or {part}.schema"
        )
    settings = read_settings(dict(decoding.registry))
    if settings is None:
        return column, ""
    subject = decoding.subject or f"{min(topics)}-{part}"  # Confluent's TopicNameStrategy
    latest = SchemaRegistry(settings).reader_schema(subject, decoding.version)
    if latest.schema.kind != "AVRO":
        raise OptionError(
            f"option {part}.format=avro: subject {latest.subject!r}, version {latest.version} has a schema of "
            f"{latest.schema.kind}"
        )
    place = f"subject {latest.subject!r}, version {latest.version}, of the schema registry"
    decoding = with_schema(part, decoding, latest.schema.text, latest.schema.references, place)
    note = f"{part}s are read with version {latest.version} of subject {latest.subject!r} (schema {latest.schema_id})"
    return column._replace(type=decoding.type, decoding=decoding), note
