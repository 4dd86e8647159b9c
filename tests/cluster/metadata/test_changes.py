"""Each change checks its precondition, and a delta has everything that changes made of an image."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.cluster.metadata.acls import AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.change_records import UnknownChange, decode, encode
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    ChangeAcls,
    Conflict,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    SetConfigs,
    SetController,
    SetFeatures,
    TakeProducerIds,
    UnregisterBroker,
    apply,
    apply_all,
    decide_all,
)
from kwire.cluster.metadata.delta import ClusterDelta, changes_for, delta_between, delta_of
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import TOPIC_RESOURCE, ClusterImage, PartitionImage, TopicImage
from tests.cluster.metadata.histories import change_of

STATE = PartitionImage(1, 0, 5, (1,), (1,))
NEXT = replace(STATE, partition_epoch=6)
ID, OTHER_ID = b"1" * 16, b"2" * 16
PATTERN = ResourcePattern(2, 3, "a")
ENTRY, OTHER_ENTRY = (AccessControlEntry(who, "*", 3, 3) for who in ("User:a", "User:b"))
IMAGE = (
    ClusterImage("c", controller_id=1, controller_epoch=4, next_producer_id=10)
    .with_topics([TopicImage("a", ID, (STATE, STATE))])
    .with_configs(TOPIC_RESOURCE, "a", {"x": "1"})
    .with_acls(PATTERN, frozenset({ENTRY}))
)


@pytest.mark.parametrize(
    "change",
    [
        CreateTopic(TopicImage("a", OTHER_ID, (STATE,))),
        CreateTopic(TopicImage("b", ID, (STATE,))),
        AddPartitions("a", ID, 1, (STATE,)),
        AddPartitions("a", OTHER_ID, 2, (STATE,)),
        AddPartitions("b", ID, 2, (STATE,)),
        AlterPartition("a", ID, 0, 4, NEXT),
        AlterPartition("a", ID, 0, 5, STATE),
        AlterPartition("a", ID, 2, 5, NEXT),
        AlterPartition("a", OTHER_ID, 0, 5, NEXT),
        MarkForDeletion("a", OTHER_ID),
        DeleteTopic("a", OTHER_ID),
        DeleteTopic("b", ID),
        SetConfigs(TOPIC_RESOURCE, "a", {}, {"x": "2"}),
        SetConfigs(TOPIC_RESOURCE, "b", {}, {"x": "2"}),
        ChangeAcls(PATTERN, (ENTRY,)),
        ChangeAcls(PATTERN, (), (OTHER_ENTRY,)),
        ChangeAcls(PATTERN._replace(pattern_type=4), (), (ENTRY,)),
        UnregisterBroker(1),
        SetController(2, 3, 7),
        SetController(1, 2, 3),
        TakeProducerIds(9, 20),
        TakeProducerIds(10, 9),
        SetFeatures(1, FinalizedFeatures(epoch=2)),
        SetFeatures(0, FinalizedFeatures(epoch=0)),
    ],
)
def test_change_with_a_wrong_precondition_is_a_conflict(change: Change) -> None:
    with pytest.raises(Conflict):
        apply(IMAGE, change)


@pytest.mark.slow
@given(st.data())
def test_delta_leads_to_the_image_that_its_changes_made(data: st.DataObject) -> None:
    first, made = ClusterImage("c"), ClusterImage("c")
    batch: list[Change] = []
    for _ in range(data.draw(st.integers(0, 12))):
        change = data.draw(change_of(made))
        if data.draw(st.integers(0, 4)) == 0:  # what follows is another delta
            first, batch = made, []
        before = made
        try:
            made = apply(made, change)
        except Conflict:
            assert made is before
            continue
        made = made.with_version(made.version + 1)
        batch.append(change)
        delta = delta_of(first, made, batch)
        assert delta.applied_to(first) == made
        assert delta == delta_between(first, made)
        assert apply_all(first, changes_for(first, delta)).with_version(made.version) == made
        read = decode(json.loads(json.dumps(encode(change))))
        assert read == change
        assert apply(before, read) == made.with_version(before.version)


def test_recreated_topic_is_deleted_and_new_in_the_delta() -> None:
    again = TopicImage("a", OTHER_ID, (STATE,))
    changes: list[Change] = [DeleteTopic("a", ID), CreateTopic(again)]
    after = IMAGE.without_topics(["a"]).with_topics([again])
    assert delta_of(IMAGE, after, changes) == ClusterDelta(
        deleted={"a": ID},
        topics={"a": again},
        partitions={"a": (0,)},
        configs={(TOPIC_RESOURCE, "a"): {}},
        controller_id=1,
        controller_epoch=4,
        next_producer_id=10,
    )


def test_delta_names_the_changed_partitions() -> None:
    changes: list[Change] = [
        AlterPartition("a", ID, 1, 5, NEXT),
        AddPartitions("a", ID, 2, (STATE,)),
    ]
    after = apply(apply(IMAGE, changes[0]), changes[1])
    assert delta_of(IMAGE, after, changes).partitions == {"a": (1, 2)}


def test_topics_created_at_once_equal_topics_created_one_by_one() -> None:
    def creation(name: str, number: int, **configs: str) -> CreateTopic:
        return CreateTopic(TopicImage(name, bytes([number]) * 16, (STATE,)), configs)

    fine: list[Change] = [creation("b.1", 11, x="1"), creation("b_1", 12), creation("c", 13)]
    one_by_one = IMAGE
    for change in fine:
        one_by_one = apply(one_by_one, change)
    assert apply_all(IMAGE, fine) == one_by_one
    for wrong in (creation("a", 14), creation("c", 14), creation("d", 13)):
        with pytest.raises(Conflict):
            apply_all(IMAGE, [*fine, wrong])


def test_decision_sees_the_changes_of_decisions_before_it() -> None:
    def make(image: ClusterImage) -> Change | None:
        return None if "b" in image.topics else CreateTopic(TopicImage("b", OTHER_ID, (STATE,)))

    def grow(image: ClusterImage) -> Change | None:
        return AddPartitions("b", OTHER_ID, len(image.topics["b"].partitions), (STATE,))

    changes, deciders = decide_all(IMAGE, [make, make, grow])
    assert [type(change) for change in changes] == [CreateTopic, AddPartitions]
    assert deciders == [0, 2]


def test_change_of_a_later_version_raises_unknown_change() -> None:
    with pytest.raises(UnknownChange, match="kind of metadata change 'move_moon'"):
        decode({"kind": "move_moon"})
