"""Avro's schema for Spark's type, as ``to_avro`` of Spark 4.2 has it without a schema (SchemaConverters).

What differs: the outermost type can't be null, since a record that is null is a tombstone.
"""

from __future__ import annotations

from typing import Any, Final

from sparkcohort.runtime.values.avro_schema import AvroSchemaError

PLAIN: Final[dict[str, Any]] = {
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}
"""By Spark's names in JSON."""


def avro_schema(kind: Any, name: str = "topLevelRecord", namespace: str = "") -> Any:
    """The schema, for a type as Spark's JSON has it.  Raises AvroSchemaError.

    >>> avro_schema({"type": "array", "elementType": "short", "containsNull": True})
    {'type': 'array', 'items': ['int', 'null']}
    """

    def inside(kind: Any, nullable: bool, name: str = name, namespace: str = namespace) -> Any:
        schema = avro_schema(kind, name, namespace)
        return [schema, "null"] if nullable else schema

    full = f"{namespace}.{name}" if namespace else name
    if isinstance(kind, str) and kind.startswith("decimal("):
        precision, scale = map(int, kind[len("decimal(") : -1].split(","))
        size = next(size for size in range(1, 17) if 10**precision <= 1 << (8 * size - 1))
        fixed = {"type": "fixed", "name": f"{full}.fixed", "size": size}
        return {**fixed, "logicalType": "decimal", "precision": precision, "scale": scale}
    if isinstance(kind, str):
        if kind not in PLAIN:
            raise AvroSchemaError(full, f"Avro has no type for {kind}")
        return PLAIN[kind]
    if kind["type"] == "array":
        return {"type": "array", "items": inside(kind["elementType"], kind["containsNull"])}
    if kind["type"] == "map":
        if kind["keyType"] != "string":
            raise AvroSchemaError(full, "Avro's keys are STRING, so must be those of a MAP")
        return {"type": "map", "values": inside(kind["valueType"], kind["valueContainsNull"])}
    if kind["type"] != "struct":
        raise AvroSchemaError(full, f"Avro has no type for {kind['type']}")
    fields = [
        {"name": each["name"], "type": inside(each["type"], each["nullable"], each["name"], full)}
        for each in kind["fields"]
    ]
    return {"type": "record", "name": name, "namespace": namespace, "fields": fields}
