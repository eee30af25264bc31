"""What is inside of a record's bytes: formats, their schemas, and Spark's types for them; ``avro`` is the first."""
