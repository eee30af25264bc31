"""Which topic it is that has a name now: a topic deleted and made anew has another id (KIP-516), and other records."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from sparkcohort.runtime.shell.kafka import clients
from sparkcohort.runtime.shell.kafka.renewed_client import RenewedClient

log = logging.getLogger("sparkcohort.topic_ids")

ANSWER_S = 2.0  # patience with brokers that have just answered another question
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # of a cluster whose brokers know none (before Kafka 2.8)


class TopicIds:
    """Asks for topics' ids by a client of its own (the metadata that librdkafka's consumer shows has none)."""

    def __init__(self, conf: Mapping[str, Any]) -> None:
        """Nothing is opened before the first question."""
        self._conf = conf
        self._admin: RenewedClient[AdminClient] = RenewedClient(conf)
        self._known: dict[str, str] = {}
        self._told = False

    def of(self, topics: Collection[str], timeout_s: float = ANSWER_S) -> dict[str, str]:
        """The id of each topic; as last known of those that nobody tells of now, none of those never told of."""
        wanted = sorted(topics)
        try:
            found = self.ask(wanted, timeout_s)
        except (KafkaException, TimeoutError) as error:
            found = {}
            if not self._told:
                self._told = True
                log.warning(
                    "the topics' ids are not known: %s; until they are, a topic created anew can't be told from the old one",
                    clients.text_of(error),
                )
        known = {**self._known, **found}
        self._known = {topic: known[topic] for topic in wanted if topic in known}
        return dict(self._known)

    def release(self) -> None:
        """Let go of the client; for the thread that asks."""
        self._admin.release()

    def ask(self, topics: Collection[str], timeout_s: float = ANSWER_S) -> dict[str, str]:
        """The ids of those topics that there are.  Raises KafkaException, TimeoutError when nobody answers."""
        if not topics:
            return {}
        found: dict[str, str] = {}
        with self._admin.asking(lambda: clients.new_admin(self._conf)) as admin:
            asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=timeout_s)
            for topic, answer in asked.items():
                try:
                    found[topic] = display_id(str(answer.result(timeout_s).topic_id))
                except KafkaException as error:
                    if clients.code_of(error) < 0:  # the library's own: nobody has answered
                        raise
        return {topic: topic_id for topic, topic_id in found.items() if topic_id != NO_ID}


def display_id(topic_id: str) -> str:
    """An id as Kafka's tools show it.

    >>> display_id("lj7XrdGBSHu+2/Ybcic80w")
    'lj7XrdGBSHu-2_Ybcic80w'
    """
    return topic_id.replace("+", "-").replace("/", "_")
