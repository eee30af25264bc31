"""The PySpark side: the source, its reader and its tasks."""
