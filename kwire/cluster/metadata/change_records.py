"""Changes as JSON: what a store keeps in a log, or sends to another process.

A change is an object with its `kind` and its fields; a partition is the list

    [leader, leader epoch, partition epoch, [replica, ...], [in sync, ...], [offline, ...],
     [adding, ...], [removing, ...], recovering, controller epoch]

whose last parts are left out where they are empty or 0, and an access control entry the list
[principal, host, operation, permission]; of a delegation token there is

    [owner, requester, [renewer, ...], issued at, expires at the latest at, expires at]

with times in ms since the epoch.  A field that a later version adds is left
out where it has its default, so what does not use it is still read by the version before.
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
    """The change as values of JSON."""
    match change:
        case CreateTopic(topic, configs):
            made = _encode_topic(topic.name, topic.id)
            made["partitions"] = _encode_partitions(topic.partitions)
            return {"kind": "create_topic", **made, **_encode_configs("configs", configs)}
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
            of: JsonObject = {"kind": "set_configs", "resource": int(resource), "name": name}
            before = _encode_configs("expected", expected)
            return of | before | _encode_configs("configs", configs)
        case ChangeAcls(pattern, coming, going):
            on: JsonObject = {"kind": "change_acls", "resource": int(pattern.resource_type)}
            on |= {"pattern": int(pattern.pattern_type), "name": pattern.name}
            return on | _encode_entries("added", coming) | _encode_entries("removed", going)
        case SetToken(token_id, expected_token, token):
            named: JsonObject = {"kind": "set_token", "id": token_id}
            was = _encode_token("expected", expected_token)
            return named | was | _encode_token("token", token)
        case SetFeatures(expected_epoch, features):
            return {"kind": "set_features", "expected": expected_epoch, **_encode(features)}
        case _:
            return _encode_of_cluster(change)


def decode(said: JsonObject) -> Change:
    """The change that `encode` made this of.  Raises ValueError, TypeError, LookupError."""
    kind = said["kind"]
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise UnknownChange(f"{kind!r} is no change of the metadata that this version knows")
    return decoder(said)


def _encode_of_cluster(
    change: RegisterBroker | UnregisterBroker | SetController | TakeProducerIds,
) -> JsonObject:
    match change:
        case RegisterBroker(broker):
            return {"kind": "register_broker", **_encode_broker(broker)}
        case UnregisterBroker(broker_id):
            return {"kind": "unregister_broker", "id": broker_id}
        case SetController(expected, controller_id, epoch):
            became: JsonObject = {"kind": "set_controller", "expected": expected}
            became["id"] = controller_id
            return became | ({"epoch": epoch} if epoch else {})
        case TakeProducerIds(first, end):
            return {"kind": "take_producer_ids", "first": first, "end": end}


def _encode_topic(name: str, topic_id: bytes) -> JsonObject:
    return {"name": name, "id": uuid_text(topic_id)}


def _encode_configs(field: str, configs: Mapping[str, str]) -> JsonObject:
    return {field: dict(configs)} if configs else {}


def _encode_entries(field: str, entries: tuple[AccessControlEntry, ...]) -> JsonObject:
    said = [[e.principal, e.host, int(e.operation), int(e.permission)] for e in entries]
    return {field: said} if said else {}


def _encode_token(field: str, token: DelegationToken | None) -> JsonObject:
    if token is None:
        return {}
    of: list[Any] = [token.owner, token.requester, token.renewers]
    return {field: [*of, token.issue_ms, token.max_ms, token.expiry_ms]}


def _encode_partition(state: PartitionImage) -> list[Any]:
    said: list[Any] = [state.leader, state.leader_epoch, state.partition_epoch]
    said += [state.replicas, state.isr]
    rare: list[Any] = [state.offline, state.adding, state.removing]
    rare += [int(state.recovering), state.controller_epoch]
    while rare and not rare[-1]:
        rare.pop()
    return said + rare


def _encode_partitions(partitions: tuple[PartitionImage, ...]) -> list[list[Any]]:
    return [_encode_partition(state) for state in partitions]


def _encode_broker(broker: BrokerImage) -> JsonObject:
    endpoints = [[e.listener, e.host, e.port, e.security_protocol] for e in broker.endpoints]
    said: JsonObject = {"id": broker.id, "endpoints": endpoints, "rack": broker.rack}
    if broker.epoch >= 0:
        said["epoch"] = broker.epoch
    if broker.features:
        said["features"] = {name: list(levels) for name, levels in broker.features.items()}
    return said


def _encode(features: FinalizedFeatures) -> JsonObject:
    said: JsonObject = {"epoch": features.epoch, "asked": dict(features.asked)}
    if features.agreed is not None:
        said["agreed"] = dict(features.agreed)
    return said


def _configs(said: object) -> dict[str, str]:
    if not isinstance(said, dict) or not all(isinstance(text, str) for text in said.values()):
        raise TypeError(f"{said!r} are no configs")
    return said


_COMMON: list[Any] = [(), (), (), 0, 0]
"""What is left out at the end of a partition."""


def decode_partition(said: list[Any]) -> PartitionImage:
    """A partition's state.  Raises ValueError, TypeError."""
    leader, leader_epoch, partition_epoch, replicas, isr, *rare = said
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


def _create_topic(said: JsonObject) -> Change:
    partitions = tuple(map(decode_partition, said["partitions"]))
    topic = TopicImage(said["name"], uuid_bytes(said["id"]), partitions)
    return CreateTopic(topic, _configs(said.get("configs", {})))


def _add_partitions(said: JsonObject) -> Change:
    partitions = tuple(map(decode_partition, said["partitions"]))
    return AddPartitions(said["name"], uuid_bytes(said["id"]), said["first"], partitions)


def _alter_partition(said: JsonObject) -> Change:
    return AlterPartition(
        said["name"],
        uuid_bytes(said["id"]),
        said["partition"],
        said["partition_epoch"],
        decode_partition(said["state"]),
    )


def _set_configs(said: JsonObject) -> Change:
    expected, configs = said.get("expected", {}), said.get("configs", {})
    return SetConfigs(said["resource"], said["name"], _configs(expected), _configs(configs))


def _change_acls(said: JsonObject) -> Change:
    pattern = ResourcePattern(said["resource"], said["pattern"], said["name"])
    added = tuple(AccessControlEntry(*each) for each in said.get("added", ()))
    return ChangeAcls(
        pattern, added, tuple(AccessControlEntry(*each) for each in said.get("removed", ()))
    )


def _set_token(said: JsonObject) -> Change:
    token_id = said["id"]
    return SetToken(
        token_id, _token(token_id, said.get("expected")), _token(token_id, said.get("token"))
    )


def _token(token_id: str, said: list[Any] | None) -> DelegationToken | None:
    if said is None:
        return None
    owner, requester, renewers, issue_ms, max_ms, expiry_ms = said
    return DelegationToken(token_id, owner, requester, tuple(renewers), issue_ms, max_ms, expiry_ms)


def _register_broker(said: JsonObject) -> Change:
    endpoints = tuple(Endpoint(*each) for each in said["endpoints"])
    features = {name: (low, high) for name, (low, high) in said.get("features", {}).items()}
    return RegisterBroker(
        BrokerImage(said["id"], endpoints, said["rack"], said.get("epoch", -1), features)
    )


def _set_features(said: JsonObject) -> Change:
    agreed = said.get("agreed")
    return SetFeatures(
        said["expected"],
        FinalizedFeatures(
            _levels(said["asked"]), None if agreed is None else _levels(agreed), said["epoch"]
        ),
    )


def _levels(said: object) -> dict[str, int]:
    if not isinstance(said, dict) or not all(isinstance(level, int) for level in said.values()):
        raise TypeError(f"{said!r} are no levels of features")
    return said


_DECODERS: dict[str, Callable[[JsonObject], Change]] = {
    "create_topic": _create_topic,
    "add_partitions": _add_partitions,
    "alter_partition": _alter_partition,
    "mark_for_deletion": lambda said: MarkForDeletion(said["name"], uuid_bytes(said["id"])),
    "delete_topic": lambda said: DeleteTopic(said["name"], uuid_bytes(said["id"])),
    "set_configs": _set_configs,
    "change_acls": _change_acls,
    "set_token": _set_token,
    "register_broker": _register_broker,
    "unregister_broker": lambda said: UnregisterBroker(said["id"]),
    "set_controller": lambda said: SetController(
        said["expected"], said["id"], said.get("epoch", 0)
    ),
    "set_features": _set_features,
    "take_producer_ids": lambda said: TakeProducerIds(said["first"], said["end"]),
}
