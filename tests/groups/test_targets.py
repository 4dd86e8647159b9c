"""The input of assignors: whether all members of a group have the same subscription."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kwire.cluster.metadata.image import ClusterImage
from kwire.groups.assignment import Assignment
from kwire.groups.consumer import target as of_consumers
from kwire.groups.consumer.assignors.spec import ConsumerGroupSpec
from kwire.groups.consumer.group import ConsumerGroup, ResolvedPattern
from kwire.groups.consumer.member import ConsumerMember
from kwire.groups.share import assignor
from kwire.groups.share import target as of_shares
from kwire.groups.share.group import ShareGroup
from kwire.groups.share.member import ShareGroupMember
from tests.groups.images import put

IMAGE, _ = put(ClusterImage(cluster_id="c"), "t", 2)

Said = tuple[str, str | None]
"""The names, and the pattern, that a member is subscribed to."""


@pytest.mark.parametrize(
    ("members", "homogeneous"),
    [
        ([("t", "")], True),
        ([("t", ""), ("t", None)], True),
        ([("t", ""), ("tu", "")], False),
        ([("", "x")], True),
        ([("", "x"), ("", "x")], True),
        ([("", "x"), ("", "y")], False),
        ([("", "x"), ("", "")], False),
        ([("t", "x"), ("t", "x")], False),
        ([("", "x"), ("t", "x")], False),
    ],
)
def test_consumer_target_matches_recorded_kafka_results(
    members: Sequence[Said], homogeneous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[ConsumerGroupSpec] = []

    def assign(spec: ConsumerGroupSpec) -> dict[str, Assignment]:
        told.append(spec)
        return {}

    monkeypatch.setitem(of_consumers.ASSIGNORS, "uniform", assign)
    group = ConsumerGroup("g", patterns={"x": ResolvedPattern(frozenset("t"), 0, 0)})
    asked = [
        ConsumerMember(str(place), topic_names=frozenset(names), pattern=pattern)
        for place, (names, pattern) in enumerate(members)
    ]
    assigned = of_consumers.compute(group, asked, IMAGE, "uniform")
    assert assigned == {member.member_id: {} for member in asked}
    assert told[0].homogeneous is homogeneous


@pytest.mark.parametrize(
    ("members", "homogeneous"),
    [(["t"], True), (["t", "t"], True), (["t", "tu"], False), (["t", "u", "x"], False)],
)
def test_share_target_matches_recorded_kafka_results(
    members: Sequence[str], homogeneous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[assignor.ShareSpec] = []

    def assign(spec: assignor.ShareSpec) -> dict[str, Assignment]:
        told.append(spec)
        return {}

    monkeypatch.setattr(assignor, "assign", assign)
    asked = [
        ShareGroupMember(str(place), topic_names=frozenset(names))
        for place, names in enumerate(members)
    ]
    assigned = of_shares.compute(ShareGroup("g"), asked, IMAGE)
    assert assigned == {member.member_id: {} for member in asked}
    assert told[0].homogeneous is homogeneous
