"""Members in Kafka's order, and who of them wants which topic: what range and roundrobin are made of."""

from __future__ import annotations

from collections.abc import Mapping

from sparkcohort.assignors.base import MemberSubscription


def static_first(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Kafka's order: static members by instance id, then dynamic ones by member id.

    Instance ids outlive restarts and member ids don't: static members in front keep what they had (KAFKA-7149).
    """
    return sorted(members, key=lambda m: (members[m].instance_id is None, members[m].instance_id or "", m))


def places(
    topics: Mapping[str, int], members: Mapping[str, MemberSubscription], order: list[str]
) -> dict[str, tuple[int, ...]]:
    """By topic, sorted, the places in ``order`` of those who want it; topics nobody wants left out.

    Topics wanted by the same members share one tuple, so it can be told by identity.  Members mostly want the same,
    so it's subscriptions that are looked at one by one, not members.
    """
    alike: dict[tuple[str, ...], list[int]] = {}
    for place, member in enumerate(order):
        alike.setdefault(members[member].topics, []).append(place)
    wishes = list(alike)
    wishing: dict[str, list[int]] = {}
    for number, wish in enumerate(wishes):
        for topic in set(wish) & topics.keys():
            wishing.setdefault(topic, []).append(number)
    shared: dict[tuple[int, ...], tuple[int, ...]] = {}
    found = {}
    for topic in sorted(wishing):
        key = tuple(wishing[topic])
        if key not in shared:
            shared[key] = tuple(sorted(place for number in key for place in alike[wishes[number]]))
        found[topic] = shared[key]
    return found
