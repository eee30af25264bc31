"""Registers ``format("cohort")`` by being installed.

PySpark imports every top-level module named ``pyspark_*`` and registers its ``DefaultSource`` by itself.
"""

from sparkcohort.streaming.source import CohortSource as DefaultSource

__all__ = ["DefaultSource"]
