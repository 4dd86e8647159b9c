"""Changes as JSON, for a store's log and for messages between processes.

A change is an object with its `kind` and its fields.  A partition is the list

    [leader, leader epoch, partition epoch, [replica, ...], [in sync, ...], [offline, ...],
     [adding, ...], [removing, ...], recovering, controller epoch]

without the last elements if they are empty or 0.  An access control entry is the list
[principal, host, operation, permission].  A delegation token is the list

    [owner, requester, [renewer, ...], issue time, maximum expiry time, expiry time]

with times in ms since the epoch.  A field that a later version adds is left out if it has its
default, so that the version before can read changes that do not use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kwire.cluster.metadata.acls import AccessControlEntry, ResourcePattern
from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    ChangeAcls,
    CreateTopic,
    DeleteTopic,
    DropRegistration,
    KeepRegistration,
    MarkForDeletion,
    RegisterBroker,
    SetConfigs,
    SetController,
    SetFeatures,
    SetToken,
    TakeProducerIds,
    UnregisterBroker,
)
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import BrokerImage, Endpoint, PartitionImage, TopicImage
from kwire.cluster.metadata.tokens import DelegationToken
from kwire.codecs.uuids import uuid_bytes, uuid_text

JsonObject = dict[str, Any]


class UnknownChange(ValueError):
    """A change of a kind that this version of kwire does not know."""


def encode(change: Change) -> JsonObject:
    """Return the change as a JSON object."""
    match change:
        case CreateTopic(topic, configs):
            created = _encode_topic(topic.name, topic.id)
            created["partitions"] = _encode_partitions(topic.partitions)
            return {"kind": "create_topic", **created, **_encode_configs("configs", configs)}
        case AddPartitions(name, topic_id, first, partitions):
            added: JsonObject = {"first": first, "partitions": _encode_partitions(partitions)}
            return {"kind": "add_partitions", **_encode_topic(name, topic_id), **added}
        case AlterPartition(name, topic_id, index, partition_epoch, state):
            altered: JsonObject = {"partition": index, "partition_epoch": partition_epoch}
            altered["state"] = _encode_partition(state)
            return {"kind": "alter_partition", **_encode_topic(name, topic_id), **altered}
        case MarkForDeletion(name, topic_id) | DeleteTopic(name, topic_id):
            kind = "delete_topic" if isinstance(change, DeleteTopic) else "mark_for_deletion"
            return {"kind": kind, **_encode_topic(name, topic_id)}
        case SetConfigs(resource, name, expected, configs):
            set_configs: JsonObject = {
                "kind": "set_configs",
                "resource": int(resource),
                "name": name,
            }
            before = _encode_configs("expected", expected)
            return set_configs | before | _encode_configs("configs", configs)
        case ChangeAcls(pattern, added_entries, removed_entries):
            change_acls: JsonObject = {
                "kind": "change_acls",
                "resource": int(pattern.resource_type),
            }
            change_acls |= {"pattern": int(pattern.pattern_type), "name": pattern.name}
            return (
                change_acls
                | _encode_entries("added", added_entries)
                | _encode_entries("removed", removed_entries)
            )
        case SetToken(token_id, expected_token, token):
            set_token: JsonObject = {"kind": "set_token", "id": token_id}
            expected_json = _encode_token("expected", expected_token)
            return set_token | expected_json | _encode_token("token", token)
        case SetFeatures(expected_epoch, features):
            return {
                "kind": "set_features",
                "expected": expected_epoch,
                **_encode_features(features),
            }
        case _:
            return _encode_of_cluster(change)


def decode(record: JsonObject) -> Change:
    """Return the change that `encode` wrote as this JSON object.

    Raises ValueError, TypeError, LookupError.
    """
    kind = record["kind"]
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise UnknownChange(f"unknown kind of metadata change {kind!r}")
    return decoder(record)


def _encode_of_cluster(
    change: RegisterBroker
    | UnregisterBroker
    | KeepRegistration
    | DropRegistration
    | SetController
    | TakeProducerIds,
) -> JsonObject:
    """Return a change of brokers, controller or producer ids as JSON."""
    match change:
        case RegisterBroker(broker):
            return {"kind": "register_broker", **_encode_broker(broker)}
        case UnregisterBroker(broker_id):
            return {"kind": "unregister_broker", "id": broker_id}
        case KeepRegistration(broker):
            return {"kind": "keep_registration", **_encode_broker(broker)}
        case DropRegistration(broker_id):
            return {"kind": "drop_registration", "id": broker_id}
        case SetController(expected, controller_id, epoch):
            controller: JsonObject = {"kind": "set_controller", "expected": expected}
            controller["id"] = controller_id
            return controller | ({"epoch": epoch} if epoch else {})
        case TakeProducerIds(first, end):
            return {"kind": "take_producer_ids", "first": first, "end": end}


def _encode_topic(name: str, topic_id: bytes) -> JsonObject:
    return {"name": name, "id": uuid_text(topic_id)}


def _encode_configs(field: str, configs: Mapping[str, str]) -> JsonObject:
    return {field: dict(configs)} if configs else {}


def _encode_entries(field: str, entries: tuple[AccessControlEntry, ...]) -> JsonObject:
    encoded = [[e.principal, e.host, int(e.operation), int(e.permission)] for e in entries]
    return {field: encoded} if encoded else {}


def _encode_token(field: str, token: DelegationToken | None) -> JsonObject:
    """Return a token as JSON, under the name `field`; an empty object for None."""
    if token is None:
        return {}
    principals: list[Any] = [token.owner, token.requester, token.renewers]
    return {field: [*principals, token.issue_ms, token.max_ms, token.expiry_ms]}


def _encode_partition(state: PartitionImage) -> list[Any]:
    """Return a partition's state as a list, without the trailing empty fields."""
    encoded: list[Any] = [state.leader, state.leader_epoch, state.partition_epoch]
    encoded += [state.replicas, state.isr]
    rare: list[Any] = [state.offline, state.adding, state.removing]
    rare += [int(state.recovering), state.controller_epoch]
    # Nearly all partitions have none of these fields set.
    while rare and not rare[-1]:
        rare.pop()
    return encoded + rare


def _encode_partitions(partitions: tuple[PartitionImage, ...]) -> list[list[Any]]:
    return [_encode_partition(state) for state in partitions]


def _encode_broker(broker: BrokerImage) -> JsonObject:
    """Return a broker's registration as JSON.

    `epoch`, `features` and `log_dirs` are left out if the broker has none.
    """
    endpoints = [[e.listener, e.host, e.port, e.security_protocol] for e in broker.endpoints]
    encoded: JsonObject = {"id": broker.id, "endpoints": endpoints, "rack": broker.rack}
    if broker.epoch >= 0:
        encoded["epoch"] = broker.epoch
    if broker.features:
        encoded["features"] = {name: list(levels) for name, levels in broker.features.items()}
    if broker.log_dirs:
        encoded["log_dirs"], encoded["cordoned"] = list(broker.log_dirs), list(broker.cordoned)
    return encoded


def _encode_features(features: FinalizedFeatures) -> JsonObject:
    """Return feature levels as JSON; `agreed` is left out until members have agreed."""
    encoded: JsonObject = {"epoch": features.epoch, "asked": dict(features.asked)}
    if features.agreed is not None:
        encoded["agreed"] = dict(features.agreed)
    return encoded


def _configs(record: object) -> dict[str, str]:
    if not isinstance(record, dict) or not all(isinstance(text, str) for text in record.values()):
        raise TypeError(f"Invalid configs: {record!r}")
    return record


_COMMON: list[Any] = [(), (), (), 0, 0]
"""The defaults of the elements that a partition may leave out at its end."""


def decode_partition(record: list[Any]) -> PartitionImage:
    """Return a partition's state from its list.  Raises ValueError, TypeError."""
    leader, leader_epoch, partition_epoch, replicas, isr, *rare = record
    offline, adding, removing, recovering, controller_epoch = rare + _COMMON[len(rare) :]
    return PartitionImage(
        leader,
        leader_epoch,
        partition_epoch,
        tuple(replicas),
        tuple(isr),
        tuple(offline),
        tuple(adding),
        tuple(removing),
        bool(recovering),
        controller_epoch,
    )


def _create_topic(record: JsonObject) -> Change:
    partitions = tuple(map(decode_partition, record["partitions"]))
    topic = TopicImage(record["name"], uuid_bytes(record["id"]), partitions)
    return CreateTopic(topic, _configs(record.get("configs", {})))


def _add_partitions(record: JsonObject) -> Change:
    partitions = tuple(map(decode_partition, record["partitions"]))
    return AddPartitions(record["name"], uuid_bytes(record["id"]), record["first"], partitions)


def _alter_partition(record: JsonObject) -> Change:
    """Decodes a change of a partition's state; see `AlterPartition`."""
    return AlterPartition(
        record["name"],
        uuid_bytes(record["id"]),
        record["partition"],
        record["partition_epoch"],
        decode_partition(record["state"]),
    )


def _set_configs(record: JsonObject) -> Change:
    expected, configs = record.get("expected", {}), record.get("configs", {})
    return SetConfigs(record["resource"], record["name"], _configs(expected), _configs(configs))


def _change_acls(record: JsonObject) -> Change:
    """Decodes a change of access control entries; see `ChangeAcls`."""
    pattern = ResourcePattern(record["resource"], record["pattern"], record["name"])
    added = tuple(AccessControlEntry(*each) for each in record.get("added", ()))
    return ChangeAcls(
        pattern, added, tuple(AccessControlEntry(*each) for each in record.get("removed", ()))
    )


def _set_token(record: JsonObject) -> Change:
    """Decodes a change of a delegation token; see `SetToken`."""
    token_id = record["id"]
    return SetToken(
        token_id, _token(token_id, record.get("expected")), _token(token_id, record.get("token"))
    )


def _token(token_id: str, record: list[Any] | None) -> DelegationToken | None:
    """Return the token in a list that `_encode_token` made; None for None."""
    if record is None:
        return None
    owner, requester, renewers, issue_ms, max_ms, expiry_ms = record
    return DelegationToken(token_id, owner, requester, tuple(renewers), issue_ms, max_ms, expiry_ms)


def _broker(record: JsonObject) -> BrokerImage:
    """Return the registration of a broker; see `_encode_broker`."""
    endpoints = tuple(Endpoint(*each) for each in record["endpoints"])
    features = {name: (low, high) for name, (low, high) in record.get("features", {}).items()}
    return BrokerImage(
        record["id"],
        endpoints,
        record["rack"],
        record.get("epoch", -1),
        features,
        tuple(record.get("log_dirs", ())),
        tuple(record.get("cordoned", ())),
    )


def _set_features(record: JsonObject) -> Change:
    """Decodes a change of the finalized feature levels; see `SetFeatures`."""
    agreed = record.get("agreed")
    return SetFeatures(
        record["expected"],
        FinalizedFeatures(
            _levels(record["asked"]), None if agreed is None else _levels(agreed), record["epoch"]
        ),
    )


def _levels(record: object) -> dict[str, int]:
    if not isinstance(record, dict) or not all(isinstance(level, int) for level in record.values()):
        raise TypeError(f"Invalid feature levels: {record!r}")
    return record


_DECODERS: dict[str, Callable[[JsonObject], Change]] = {
    "create_topic": _create_topic,
    "add_partitions": _add_partitions,
    "alter_partition": _alter_partition,
    "mark_for_deletion": lambda record: MarkForDeletion(record["name"], uuid_bytes(record["id"])),
    "delete_topic": lambda record: DeleteTopic(record["name"], uuid_bytes(record["id"])),
    "set_configs": _set_configs,
    "change_acls": _change_acls,
    "set_token": _set_token,
    "register_broker": lambda record: RegisterBroker(_broker(record)),
    "unregister_broker": lambda record: UnregisterBroker(record["id"]),
    "keep_registration": lambda record: KeepRegistration(_broker(record)),
    "drop_registration": lambda record: DropRegistration(record["id"]),
    "set_controller": lambda record: SetController(
        record["expected"], record["id"], record.get("epoch", 0)
    ),
    "set_features": _set_features,
    "take_producer_ids": lambda record: TakeProducerIds(record["first"], record["end"]),
}
