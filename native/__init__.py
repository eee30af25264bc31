"""What is compiled: ``_drain`` (Kafka's records, Avro and Protobuf inside of them) and ``_json`` (JSON, parsed by yyjson).

``module.c`` and ``json/module.c`` have the maps of their C files.
"""
