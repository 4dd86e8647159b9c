"""Subscriptions by a regular expression: which topics match, and when that is looked up again.

The topics are found behind the reply to a heartbeat: that costs time for each topic there is.  They
are looked up when a pattern is new, when topics may have come since, and every
`group.consumer.regex.refresh.interval.ms`, but never more often than every MIN_INTERVAL_MS.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kwire.codecs.messages.coordinator.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from kwire.coordinators.contract.pattern import InvalidPattern, Pattern
from kwire.groups.consumer.decision import Decision
from kwire.groups.consumer.group import ConsumerGroup, ResolvedPattern
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.consumer.records import RegularExpression
from kwire.groups.consumer.timers import MayDescribe, PatternTimer
from kwire.groups.effects import Effects

MIN_INTERVAL_MS = 10_000


def refresh_when_due(
    decision: Decision,
    member: ConsumerMember,
    updated: ConsumerMember,
    may_describe: MayDescribe | None,
) -> None:
    """Have the topics looked up, if this heartbeat or the time asks for it."""
    wanted = patterns_of(decision.group, member, updated)
    if wanted and _is_due(decision, wanted):
        decision.set_timer(PatternTimer(decision.group_id, may_describe), 0)


def _is_due(decision: Decision, wanted: Collection[str]) -> bool:
    resolved = decision.group.patterns.values()
    if not resolved:
        return True
    last_ms = min(each.timestamp_ms for each in resolved)
    if decision.now_ms < last_ms + MIN_INTERVAL_MS:
        return False
    interval_ms = decision.limits.group_consumer_regex_refresh_interval_ms
    return (
        len(wanted) != len(resolved)
        or min(each.image_version for each in resolved) < decision.surroundings.image.version
        or last_ms + interval_ms <= decision.now_ms
    )


def patterns_of(group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> set[str]:
    """That the group is subscribed to with the member as it will be."""
    known = group.members.get(member.member_id)
    own = None if known is None else known.pattern
    wanted = {each for each, count in group.pattern_members.items() if each != own or count > 1}
    return wanted | {updated.pattern} if updated.pattern else wanted


def resolve(decision: Decision, may_describe: MayDescribe | None) -> Effects:
    """Look up the topics of all patterns; other topics than before begin an epoch."""
    group, image = decision.group, decision.surroundings.image
    wanted = sorted({m.pattern for m in group.members.values() if m.pattern})
    found = {pattern: _matching(pattern, image.topics, may_describe) for pattern in wanted}
    before = {p: r.topic_names for p, r in group.patterns.items() if p in found}
    for pattern, names in found.items():
        resolved = ResolvedPattern(names, image.version, decision.now_ms)
        decision.append(pattern_record(group.group_id, pattern, resolved))
    if any(names != before.get(pattern, frozenset()) for pattern, names in found.items()):
        names = frozenset[str]().union(
            *found.values(), *(m.topic_names for m in group.members.values())
        )
        decision.next_epoch(decision.metadata_hash(names))
    return decision.effects


def _matching(text: str, names: Iterable[str], may_describe: MayDescribe | None) -> frozenset[str]:
    try:
        pattern = Pattern(text)
    except InvalidPattern:
        return frozenset()  # another broker took it
    matching = (name for name in names if pattern.matches(name))
    return frozenset(name for name in matching if may_describe is None or may_describe(name))


def pattern_record(group_id: str, pattern: str, resolved: ResolvedPattern) -> RegularExpression:
    return RegularExpression(
        ConsumerGroupRegularExpressionKey(group_id, pattern),
        ConsumerGroupRegularExpressionValue(
            sorted(resolved.topic_names), resolved.image_version, resolved.timestamp_ms
        ),
    )
