"""Kafka's error codes, by Kafka's names and numbers (org.apache.kafka.common.protocol.Errors)."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """The subset of Kafka's error codes that coordinator and members go by."""

    NONE = 0
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_REQUEST = 42
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82


UNREACHABLE = "LEADER_NOT_AVAILABLE"  # Kafka's name of an error that ends when the broker is back
