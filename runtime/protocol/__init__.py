"""The group's messages as frozen values and as bytes: requests, replies, events, error codes, partitions."""
