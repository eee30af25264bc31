"""What a group says, as frozen values and as bytes: requests, replies, events, error codes, partitions, Kafka's ConsumerProtocol."""
