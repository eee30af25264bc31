"""Kafka's records into Arrow without a Python object per record; ``module.c`` has the map of the C files of ``_drain``."""
