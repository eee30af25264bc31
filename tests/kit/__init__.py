"""Helpers of the tests: real brokers, Spark drivers, delivery checks, waiting."""
