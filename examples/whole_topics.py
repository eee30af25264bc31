"""An assignor: which member gets which partition."""


class WholeTopics:
    """Each topic as a whole to one member: for caches that go with a topic."""

    name = "whole-topics"
    cooperative = False

    def assign(self, topics, members, racks):
        """``topics`` is {"orders": 12}, ``members`` maps each member id to its subscription."""
        assignment = {member: [] for member in members}
        for topic in sorted(topics, key=lambda topic: (-topics[topic], topic)):
            subscribers = sorted(member for member, subscription in members.items() if topic in subscription.topics)
            if subscribers:
                least = min(subscribers, key=lambda member: len(assignment[member]))
                assignment[least] += [(topic, partition) for partition in range(topics[topic])]
        return assignment
