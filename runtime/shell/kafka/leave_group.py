"""Taking static members out of a group (KIP-345): librdkafka's administrator can't."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sparkcohort.runtime.kafka.fetch_messages import (
    LEAVE_GROUP,
    LEAVE_GROUP_VERSION,
    Node,
    framed,
    leave_group_answer,
    leave_group_request,
)
from sparkcohort.runtime.shell.kafka.consumer.record_source import settings_of
from sparkcohort.runtime.shell.kafka.fetch.connection import Beyond, Settings, TransportError, unsupported
from sparkcohort.runtime.shell.kafka.fetch.metadata import connect_to, send_and_receive

CONNECT_S = 2.0
NEEDED: Final = {LEAVE_GROUP: LEAVE_GROUP_VERSION}
GONE: Final = frozenset({0, 25, 82})
"""Kafka's answers of which the member is none any more: none, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (another has its place)."""


def remove_members(conf: Mapping[str, Any], coordinator: Node, group: str, members: Mapping[str, str]) -> None:
    """Have the group's coordinator take these out: instance ids by member ids.

    One that has been replaced under its instance id stays.  ``conf``: as for ``clients.new_admin``.  Raises TransportError,
    Beyond where only librdkafka can log in.
    """
    said = settings_of(conf)
    if reason := unsupported(said):
        raise Beyond(reason)
    try:
        settings = Settings.of(said)
    except ValueError as error:
        raise Beyond(str(error)) from None
    transport = connect_to(coordinator, settings, CONNECT_S, NEEDED)
    try:
        body = leave_group_request(group, members)
        request = framed(LEAVE_GROUP, LEAVE_GROUP_VERSION, 1, settings.client_id, body)
        answers = send_and_receive(transport, request, "LeaveGroup", lambda of: leave_group_answer(of, len(of), 1))
    finally:
        transport.close()
    refusals = {error for member, error in answers.items() if error not in GONE}
    if refusals:
        raise TransportError(f"Kafka's error {min(refusals)} to LeaveGroup")
