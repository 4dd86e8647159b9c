"""Later versions read what a store has written: each kind of change as a log records it."""

from __future__ import annotations

import json

import pytest

from kwire.cluster.metadata.change_records import UnknownChange, decode, encode
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    RegisterBroker,
    SetConfigs,
    SetController,
    SetFeatures,
    TakeProducerIds,
    UnregisterBroker,
)
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import BrokerImage, Endpoint, PartitionImage, TopicImage

ID = bytes(range(16))
TEXT = '"AAECAwQFBgcICQoLDA0ODw"'
PLAIN = PartitionImage(1, 2, 3, (1, 2), (1,))
RARE = PartitionImage(1, 2, 3, (1, 2), (1,), (2,), (3,), (4,), True, 9)
BROKER = BrokerImage(1, (Endpoint("IN", "here", 9092, "SSL"),), "r", 7, {"f": (1, 2)})

WRITTEN: list[tuple[Change, str]] = [
    (
        CreateTopic(TopicImage("t", ID, (PLAIN, RARE)), {"a": "b"}),
        f'{{"kind": "create_topic", "name": "t", "id": {TEXT}, "partitions": [[1, 2, 3, [1, 2], '
        '[1]], [1, 2, 3, [1, 2], [1], [2], [3], [4], 1, 9]], "configs": {"a": "b"}}',
    ),
    (
        AddPartitions("t", ID, 1, (PLAIN,)),
        f'{{"kind": "add_partitions", "name": "t", "id": {TEXT}, "first": 1, '
        '"partitions": [[1, 2, 3, [1, 2], [1]]]}',
    ),
    (
        AlterPartition("t", ID, 4, 2, PLAIN),
        f'{{"kind": "alter_partition", "name": "t", "id": {TEXT}, "partition": 4, '
        '"partition_epoch": 2, "state": [1, 2, 3, [1, 2], [1]]}',
    ),
    (MarkForDeletion("t", ID), f'{{"kind": "mark_for_deletion", "name": "t", "id": {TEXT}}}'),
    (DeleteTopic("t", ID), f'{{"kind": "delete_topic", "name": "t", "id": {TEXT}}}'),
    (
        SetConfigs(2, "t", {"a": "b"}, {"a": "c"}),
        '{"kind": "set_configs", "resource": 2, "name": "t", "expected": {"a": "b"}, '
        '"configs": {"a": "c"}}',
    ),
    (SetConfigs(2, "t", {}, {}), '{"kind": "set_configs", "resource": 2, "name": "t"}'),
    (
        RegisterBroker(BROKER),
        '{"kind": "register_broker", "id": 1, "endpoints": [["IN", "here", 9092, "SSL"]], '
        '"rack": "r", "epoch": 7, "features": {"f": [1, 2]}}',
    ),
    (
        RegisterBroker(BrokerImage(1, ())),
        '{"kind": "register_broker", "id": 1, "endpoints": [], "rack": null}',
    ),
    (
        RegisterBroker(BrokerImage(1, (), log_dirs=("/a", "/b"), cordoned=("/a",))),
        '{"kind": "register_broker", "id": 1, "endpoints": [], "rack": null, '
        '"log_dirs": ["/a", "/b"], "cordoned": ["/a"]}',
    ),
    (UnregisterBroker(3), '{"kind": "unregister_broker", "id": 3}'),
    (
        SetController(1, 2, 5),
        '{"kind": "set_controller", "expected": 1, "id": 2, "epoch": 5}',
    ),
    (SetController(1, 2), '{"kind": "set_controller", "expected": 1, "id": 2}'),
    (
        SetFeatures(4, FinalizedFeatures({"f": 1}, {"f": 2}, 5)),
        '{"kind": "set_features", "expected": 4, "epoch": 5, "asked": {"f": 1}, '
        '"agreed": {"f": 2}}',
    ),
    (
        SetFeatures(4, FinalizedFeatures({}, None, 5)),
        '{"kind": "set_features", "expected": 4, "epoch": 5, "asked": {}}',
    ),
    (TakeProducerIds(1000, 2000), '{"kind": "take_producer_ids", "first": 1000, "end": 2000}'),
]


@pytest.mark.parametrize(("change", "text"), WRITTEN, ids=lambda part: str(part)[:30])
def test_change_is_encoded_as_recorded_and_decoded_again(change: Change, text: str) -> None:
    assert json.loads(json.dumps(encode(change))) == json.loads(text)
    assert decode(json.loads(text)) == change


def test_decode_names_an_unknown_kind_of_change() -> None:
    with pytest.raises(UnknownChange, match="kind of metadata change 'of_tomorrow'"):
        decode({"kind": "of_tomorrow"})
