"""Kafka's records into Arrow without a Python object per record; the sources of ``_drain`` are the C files here."""
