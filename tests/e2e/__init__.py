"""With Spark: a package, so that its session and application end with its last test."""
