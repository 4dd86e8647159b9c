"""Subscriptions by a regular expression: finds the matching topics.

This is done after the response of a heartbeat, because it takes time for each topic of the cluster.
It is done when a pattern is new, when the metadata image has changed, and every
`group.consumer.regex.refresh.interval.ms`, but at most once per MIN_INTERVAL_MS.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kwire.codecs.messages.coordinator.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionValue,
)
from kwire.coordinators.contract.pattern import InvalidRegex, RegexPattern
from kwire.groups.consumer.decision import ConsumerDecision
from kwire.groups.consumer.group import ConsumerGroup
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.records import RegularExpression
from kwire.groups.consumer.timers import MayDescribe, PatternTimer

MIN_INTERVAL_MS = 10_000


def refresh_when_due(
    decision: ConsumerDecision,
    member: ConsumerMember,
    updated: ConsumerMember,
    may_describe: MayDescribe | None,
) -> None:
    """Set the timer that looks up topics, if that is due after this heartbeat."""
    patterns = patterns_of(decision.group, member, updated)
    if patterns and _is_due(decision, patterns):
        decision.set_timer(PatternTimer(decision.group_id, may_describe), 0)


def _is_due(decision: ConsumerDecision, patterns: Collection[str]) -> bool:
    """Return whether the topics of `patterns` have to be looked up now.

    That is so if none was looked up yet, and, after MIN_INTERVAL_MS, if the patterns or the
    metadata image have changed, or the refresh interval is over.
    """
    resolved = decision.group.patterns.values()
    if not resolved:
        return True
    last_ms = min(entry.timestamp_ms for entry in resolved)
    if decision.now_ms < last_ms + MIN_INTERVAL_MS:
        return False
    interval_ms = decision.limits.group_consumer_regex_refresh_interval_ms
    return (
        len(patterns) != len(resolved)
        or min(entry.image_version for entry in resolved) < decision.surroundings.image.version
        or last_ms + interval_ms <= decision.now_ms
    )


def patterns_of(group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> set[str]:
    """The patterns of the group after the member's update."""
    current = group.members.get(member.member_id)
    own = None if current is None else current.pattern
    others = {
        pattern for pattern, count in group.pattern_members.items() if pattern != own or count > 1
    }
    return others | {updated.pattern} if updated.pattern else others


def resolve(decision: ConsumerDecision, may_describe: MayDescribe | None) -> None:
    """Look up the topics of all patterns.  If they differ from before, a new epoch begins."""
    group, image = decision.group, decision.surroundings.image
    patterns = sorted({m.pattern for m in group.members.values() if m.pattern})
    matches = {pattern: _matching(pattern, image.topics, may_describe) for pattern in patterns}
    before = {p: r.topic_names for p, r in group.patterns.items() if p in matches}
    for pattern, names in matches.items():
        value = ConsumerGroupRegularExpressionValue(sorted(names), image.version, decision.now_ms)
        decision.append(RegularExpression.of(group.group_id, pattern, value=value))
    if any(names != before.get(pattern, frozenset()) for pattern, names in matches.items()):
        names = frozenset[str]().union(
            *matches.values(), *(m.topic_names for m in group.members.values())
        )
        decision.next_epoch(decision.metadata_hash(names))


def _matching(text: str, names: Iterable[str], may_describe: MayDescribe | None) -> frozenset[str]:
    """Return the topics that match a regular expression and that the client may describe.

    `may_describe` is None without an authorizer: then all topics count.
    """
    try:
        pattern = RegexPattern(text)
    except InvalidRegex:
        return frozenset()  # another broker accepted this pattern
    matching = (name for name in names if pattern.matches(name))
    return frozenset(name for name in matching if may_describe is None or may_describe(name))
