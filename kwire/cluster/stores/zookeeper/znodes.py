"""Paths, encoders and decoders of a cluster's znodes, as Apache Kafka 3.9.2 writes them.

Znodes of other versions are read as 3.9 reads them: unknown fields are ignored, and fields that
older brokers lack are optional.  Decoders raise ValueError, TypeError or LookupError.
tests/cluster/stores/zookeeper/vectors.jsonl has znodes that a cluster of 3.9.2 wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kwire.cluster.metadata.entities import DEFAULT_ENTITY, ENTITY_RESOURCE, sanitized, unsanitized
from kwire.cluster.metadata.features import FinalizedFeatures
from kwire.cluster.metadata.image import (
    NO_LEADER,
    TOPIC_RESOURCE,
    BrokerImage,
    Endpoint,
    PartitionImage,
    ResourceKey,
    TopicImage,
)
from kwire.cluster.stores.contract import Place
from kwire.cluster.stores.zookeeper.java_json import (
    in_properties_order,
    in_scala_order,
    integers,
    keyed_by_index,
    parsed,
    text_of,
)
from kwire.codecs.uuids import uuid_bytes, uuid_text

BROKER_RESOURCE = 4
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONFIG = "/config"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE = CONFIG_CHANGES + "/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE = ISR_CHANGES + "/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT = LOG_DIR_EVENTS + "/log_dir_event_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"

PERSISTENT_PATHS = (
    "/consumers", BROKER_IDS, TOPICS, CONFIG_CHANGES, DELETE_TOPICS, "/brokers/seqid",
    ISR_CHANGES, PRODUCER_ID_BLOCK, LOG_DIR_EVENTS, "/config/topics", "/config/clients",
    "/config/users", "/config/brokers", "/config/ips",
)  # fmt: skip
"""Paths that each broker creates at its start."""

_ENTITY_TYPES = {
    TOPIC_RESOURCE: "topics",
    BROKER_RESOURCE: "brokers",
    CLIENT_METRICS_RESOURCE: "client-metrics",
    GROUP_RESOURCE: "groups",
}
_RESOURCES = {name: resource for resource, name in _ENTITY_TYPES.items()}
CONFIG_TYPES = (*_RESOURCES, "users", "clients", "ips")
"""The folders below /config that have the configs of resources."""


# -- brokers, the controller, features


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def encode_broker(broker: BrokerImage, timestamp_ms: int, jmx_port: int = -1) -> bytes:
    """Return the content of a broker's znode, version 5.

    It has no broker epoch: the epoch is the zxid that created the znode.
    """
    plain = [endpoint for endpoint in broker.endpoints if endpoint.security_protocol == "PLAINTEXT"]
    fields: dict[str, Any] = {
        "features": {
            name: in_scala_order({"min_version": low, "max_version": high})
            for name, (low, high) in broker.features.items()
        },
        "listener_security_protocol_map": {
            endpoint.listener: endpoint.security_protocol for endpoint in broker.endpoints
        },
        "endpoints": [_endpoint_text(endpoint) for endpoint in broker.endpoints],
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    if broker.log_dirs:  # Apache Kafka ignores the unknown field
        fields["kwire"] = {"log_dirs": [*broker.log_dirs], "cordoned": [*broker.cordoned]}
    # For clients of ten years ago, which know one plaintext address of a broker.
    fields |= {
        "jmx_port": jmx_port,
        "port": plain[0].port if plain else -1,
        "host": plain[0].host if plain else None,
        "version": 5,
        "timestamp": str(timestamp_ms),
    }
    return text_of(fields)


def _endpoint_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def decode_broker(broker_id: int, content: bytes, epoch: int = -1) -> BrokerImage:
    """Return the broker in a znode of versions 1 to 5.

    Later versions are decoded too if they only add fields.
    """
    fields = _object(content)
    version = int(fields["version"])
    if version < 1:
        raise ValueError(f"unknown version {version} of a broker registration")
    if version == 1:
        endpoints: tuple[Endpoint, ...] = (
            Endpoint("PLAINTEXT", str(fields["host"]), int(fields["port"])),
        )
    else:
        protocols = fields.get("listener_security_protocol_map")
        endpoints = tuple(_endpoint(text, protocols) for text in fields["endpoints"])
    features = {
        name: (int(levels["min_version"]), int(levels["max_version"]))
        for name, levels in (fields.get("features") or {}).items()
    }
    own = fields.get("kwire") or {}
    log_dirs, cordoned = (tuple(map(str, own.get(name) or ())) for name in ("log_dirs", "cordoned"))
    return BrokerImage(
        broker_id, endpoints, fields.get("rack"), epoch, features, log_dirs, cordoned
    )


def _endpoint(text: str, protocols: Mapping[str, str] | None) -> Endpoint:
    """Return the endpoint of a listener address, such as "PLAINTEXT://host:9092".

    `protocols` has the security protocol of each listener; None in registrations of old brokers.
    Raises ValueError, LookupError.
    """
    listener, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        raise ValueError(f"{text!r} is not a listener address")
    listener = listener.upper()
    # Before listeners had names, the name of the protocol stood in its place.
    protocol = listener if protocols is None else protocols[listener]
    return Endpoint(listener, host.removeprefix("[").removesuffix("]"), int(port), protocol)


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    """Version 2.  `kraftControllerEpoch` is -1, as outside of a migration to KRaft."""
    fields = {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms)}
    return text_of(fields | {"kraftControllerEpoch": -1})


def decode_controller(content: bytes) -> int:
    return int(_object(content)["brokerid"])


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(content: bytes) -> int:
    return int(content)


def encode_cluster_id(cluster_id: str) -> bytes:
    return text_of({"version": "1", "id": cluster_id})


def decode_cluster_id(content: bytes) -> str:
    return str(_object(content)["id"])


def encode_feature(features: FinalizedFeatures) -> bytes:
    """Return the content of /feature, version 2.

    The feature epoch is the version of the znode.  The field `features` stays empty: 3.9 supports
    no feature with ZooKeeper, and its brokers stop when that field names one.  They ignore and keep
    the unknown field `kwire`.
    """
    fields: dict[str, Any] = {"features": {}, "version": 2, "status": 1}
    if features.asked or features.agreed:
        agreed = dict(features.agreed or {})
        fields["kwire"] = {"asked": dict(features.asked), "agreed": agreed}
    return text_of(fields)


def decode_feature(content: bytes, version: int) -> FinalizedFeatures:
    """The features in a znode of this version; empty before members have agreed on any."""
    fields = _object(content).get("kwire") or {}
    asked, agreed = fields.get("asked") or {}, fields.get("agreed") or {}
    return FinalizedFeatures(_levels(asked), _levels(agreed), version)


def _levels(fields: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): int(level) for name, level in fields.items()}


# -- topics


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, index: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{index}"


def state_path(topic: str, index: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{index}/state"


def deletion_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The replicas of a partition, and which of them a reassignment adds and removes."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """The content of /brokers/topics/T; `id` is None if a broker before 2.8 created it."""

    id: bytes | None
    assignments: Mapping[int, ReplicaAssignment]


def encode_topic(topic: TopicImage) -> bytes:
    """Return the content of a topic's znode, version 3."""
    states = tuple(enumerate(topic.partitions))
    return text_of(
        {
            "partitions": in_scala_order(
                {str(index): list(state.replicas) for index, state in states}
            ),
            "topic_id": uuid_text(topic.id),
            "adding_replicas": keyed_by_index((index, state.adding) for index, state in states),
            "removing_replicas": keyed_by_index((index, state.removing) for index, state in states),
            "version": 3,
        }
    )


def decode_topic(content: bytes) -> TopicZnode:
    """Return topic id and replica assignments from the content of a topic's znode.

    The id is None if an old broker created the topic.  Raises an error if the content is damaged.
    """
    fields = _object(content)
    adding, removing = fields.get("adding_replicas") or {}, fields.get("removing_replicas") or {}
    assignments = {
        int(index): ReplicaAssignment(
            integers(replicas), integers(adding.get(index, ())), integers(removing.get(index, ()))
        )
        for index, replicas in (fields.get("partitions") or {}).items()
    }
    topic_id = fields.get("topic_id")
    return TopicZnode(None if topic_id is None else uuid_bytes(topic_id), assignments)


def encode_state(state: PartitionImage) -> bytes:
    """Return the content of a partition's state znode, version 1.

    The partition epoch is the version of the znode.
    """
    fields: dict[str, Any] = {"controller_epoch": state.controller_epoch, "leader": state.leader}
    fields["version"] = 1
    if state.recovering:
        fields["leader_recovery_state"] = 1
    return text_of(fields | {"leader_epoch": state.leader_epoch, "isr": list(state.isr)})


def decode_state(content: bytes, version: int, assignment: ReplicaAssignment) -> PartitionImage:
    """Return the state of a partition, with the replicas of `assignment`.

    `version` is the version of the znode, which is the partition epoch.
    """
    fields = _object(content)
    return PartitionImage(
        leader=int(fields["leader"]),
        leader_epoch=int(fields["leader_epoch"]),
        partition_epoch=version,
        replicas=assignment.replicas,
        isr=integers(fields["isr"]),
        adding=assignment.adding,
        removing=assignment.removing,
        recovering=bool(fields.get("leader_recovery_state", 0)),
        controller_epoch=int(fields["controller_epoch"]),
    )


def new_partition(assignment: ReplicaAssignment) -> PartitionImage:
    """Return a partition without a state: no controller has elected a leader yet."""
    return PartitionImage(
        leader=NO_LEADER,
        leader_epoch=-1,
        partition_epoch=-1,
        replicas=assignment.replicas,
        isr=(),
        adding=assignment.adding,
        removing=assignment.removing,
    )


# -- configs


def entity_path(key: ResourceKey) -> str:
    """Return a resource's path below /config: `topics/T`, `brokers/<default>`, `users/alice`.

    Raises LookupError for resource types that have no configs in ZooKeeper.
    """
    resource, name = key
    if resource == ENTITY_RESOURCE:
        return name
    shown = DEFAULT_ENTITY if resource == BROKER_RESOURCE and not name else sanitized(name)
    return f"{_ENTITY_TYPES[resource]}/{shown or DEFAULT_ENTITY}"


def resource_of(path: str) -> ResourceKey | None:
    """Return the resource of a path below /config; None if its type is unknown."""
    kind, _, name = path.partition("/")
    if not name or kind not in CONFIG_TYPES:
        return None
    resource = _RESOURCES.get(kind)
    if resource is None:
        return ENTITY_RESOURCE, path
    return resource, "" if name == DEFAULT_ENTITY else unsanitized(name)


def config_path(key: ResourceKey) -> str:
    return f"{CONFIG}/{entity_path(key)}"


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return text_of({"version": 1, "config": in_properties_order(configs)})


def decode_configs(content: bytes | None) -> dict[str, str]:
    """Return the configs in `content`.

    They are empty if the znode is empty, damaged, or only the parent of others.
    """
    fields = parsed(content)
    configs = fields.get("config") if isinstance(fields, dict) else None
    if not isinstance(configs, dict):
        return {}
    return {str(name): value for name, value in configs.items() if isinstance(value, str)}


def encode_config_change(key: ResourceKey) -> bytes:
    return text_of({"version": 2, "entity_path": entity_path(key)})


def decode_config_change(content: bytes) -> ResourceKey | None:
    """Return the resource that a notification names; None if its type is unknown.

    Version 1 names a type and a name, later versions a path.
    """
    fields = _object(content)
    if int(fields["version"]) == 1:
        return resource_of(f"{fields['entity_type']}/{fields['entity_name']}")
    return resource_of(str(fields["entity_path"]))


# -- requests to the controller, notifications, producer ids


def encode_reassignments(replicas: Mapping[Place, Sequence[int]]) -> bytes:
    """Return the content of /admin/reassign_partitions."""
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(ids)}
        for (topic, index), ids in replicas.items()
    ]
    return text_of({"version": 1, "partitions": partitions})


def decode_reassignments(content: bytes) -> dict[Place, tuple[int, ...]]:
    """Return the replicas that are requested for each partition.

    Raises ValueError, TypeError, LookupError.
    """
    return {
        (str(entry["topic"]), int(entry["partition"])): integers(entry["replicas"])
        for entry in _object(content)["partitions"]
    }


def encode_places(places: Iterable[Place]) -> bytes:
    """The content of /admin/preferred_replica_election and /isr_change_notification/*."""
    partitions = [{"topic": topic, "partition": index} for topic, index in places]
    return text_of({"version": 1, "partitions": partitions})


def decode_places(content: bytes) -> tuple[Place, ...]:
    partitions = _object(content)["partitions"]
    return tuple((str(entry["topic"]), int(entry["partition"])) for entry in partitions)


def encode_log_dir_event(broker_id: int) -> bytes:
    return text_of({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(content: bytes) -> int:
    return int(_object(content)["broker"])


def encode_producer_ids(broker_id: int, block: range) -> bytes:
    fields = {"version": 1, "broker": broker_id, "block_start": str(block.start)}
    return text_of(fields | {"block_end": str(block[-1])})


def decode_next_producer_id(content: bytes | None) -> int:
    """The first producer id after the block that was reserved last; 0 without one."""
    return int(_object(content)["block_end"]) + 1 if content else 0


def _object(content: bytes | None) -> dict[str, Any]:
    """Return the JSON object in `content`.  Raises ValueError if there is none."""
    fields = parsed(content)
    if not isinstance(fields, dict):
        raise ValueError(f"{content!r} is not a JSON object")
    return fields
