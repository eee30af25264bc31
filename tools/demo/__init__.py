"""The demonstration: a Spark query reads flights as a consumer group, loses an executor, and loses nothing else."""
