"""What of a record is delivered, and as what: the columns of a query, the formats of values, their schemas and types."""
