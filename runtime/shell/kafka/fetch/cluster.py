"""What a fetching client knows of its cluster, and when it is to ask again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from sparkcohort.runtime.kafka.cluster_messages import MetadataQuestion
from sparkcohort.runtime.kafka.fetch_messages import Metadata, Node, Topic
from sparkcohort.runtime.shell.kafka.cluster_client import ClusterClient
from sparkcohort.runtime.shell.kafka.fetch.background import BackgroundWork
from sparkcohort.runtime.shell.kafka.fetch.backoff import backoff

ANSWER_S = 5.0


class Cluster:
    """Brokers and topics as of the last answer; for one thread, which never waits for the next one."""

    def __init__(self, client: ClusterClient, age_s: float) -> None:
        """``age_s``: after how long to ask although nothing is missing; inf: never."""
        self.nodes: Mapping[int, Node] = {}
        self.topics: Mapping[str, Topic] = {}
        self._client, self._age_s = client, age_s
        self._pending, self._ask_at, self._in_vain, self._asked_at = False, 0.0, 0, float("-inf")
        self._well = True  # the last question was answered

    def is_due(self, missing: bool, now: float) -> bool:
        """Whether to ask now; ``missing``: something is not known, and is asked for again, more slowly each time."""
        if not missing and self._well:
            self._in_vain = 0
        return not self._pending and now >= self._ask_at and (missing or now - self._asked_at >= self._age_s)

    def ask(
        self, jobs: BackgroundWork, topics: Collection[str], callback: Callable[[Metadata | Exception], None]
    ) -> None:
        """Ask for these topics; ``callback`` is to call ``take_answer``."""
        question = MetadataQuestion(topics)
        jobs.start(lambda: self._client.metadata(question, ANSWER_S), callback)
        self._pending = True

    def take_answer(self, result: Metadata | Exception, now: float) -> None:
        """Take over the metadata, or note the failure."""
        self._pending = False
        self._in_vain += 1
        self._well = isinstance(result, Metadata)
        self._ask_at = now + backoff(self._in_vain, result if isinstance(result, Exception) else None)
        if isinstance(result, Metadata):
            self._asked_at = now
            self.nodes, self.topics = result.nodes, {**self.topics, **result.topics}

    def forget(self, topic: str) -> None:
        """Forget a topic, so that the next assignment waits for new metadata."""
        self.topics = {name: entry for name, entry in self.topics.items() if name != topic}
