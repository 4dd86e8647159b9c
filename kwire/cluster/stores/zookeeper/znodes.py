"""The znodes of a cluster: their paths and bytes, both ways, as Apache Kafka 3.9.2 writes them.

What brokers of other versions write is read as 3.9 reads it: fields that are not known are passed
over, those that came later may lack.  Decoders raise ValueError, TypeError or LookupError.
tests/cluster/stores/zookeeper/vectors.jsonl has what a cluster of 3.9.2 wrote.
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
"""What each broker makes at its start where it is not there yet."""

_ENTITY_TYPES = {
    TOPIC_RESOURCE: "topics",
    BROKER_RESOURCE: "brokers",
    CLIENT_METRICS_RESOURCE: "client-metrics",
    GROUP_RESOURCE: "groups",
}
_RESOURCES = {name: resource for resource, name in _ENTITY_TYPES.items()}
CONFIG_TYPES = (*_RESOURCES, "users", "clients", "ips")
"""The folders below /config that hold what is set on something."""


# -- who is there


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def encode_broker(broker: BrokerImage, timestamp_ms: int, jmx_port: int = -1) -> bytes:
    """Version 5.  Its epoch is the znode's: the zxid that created it."""
    plain = [each for each in broker.endpoints if each.security_protocol == "PLAINTEXT"]
    said: dict[str, Any] = {
        "features": {
            name: in_scala_order({"min_version": low, "max_version": high})
            for name, (low, high) in broker.features.items()
        },
        "listener_security_protocol_map": {
            each.listener: each.security_protocol for each in broker.endpoints
        },
        "endpoints": [_endpoint_text(each) for each in broker.endpoints],
    }
    if broker.rack is not None:
        said["rack"] = broker.rack
    # For clients of ten years ago, who know one plaintext address of a broker.
    said |= {
        "jmx_port": jmx_port,
        "port": plain[0].port if plain else -1,
        "host": plain[0].host if plain else None,
        "version": 5,
        "timestamp": str(timestamp_ms),
    }
    return text_of(said)


def _endpoint_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def decode_broker(broker_id: int, content: bytes, epoch: int = -1) -> BrokerImage:
    """Of versions 1 to 5, and later ones that add to them."""
    said = _object(content)
    version = int(said["version"])
    if version < 1:
        raise ValueError(f"version {version} of a broker's registration is not known")
    if version == 1:
        endpoints: tuple[Endpoint, ...] = (
            Endpoint("PLAINTEXT", str(said["host"]), int(said["port"])),
        )
    else:
        protocols = said.get("listener_security_protocol_map")
        endpoints = tuple(_endpoint(text, protocols) for text in said["endpoints"])
    features = {
        name: (int(levels["min_version"]), int(levels["max_version"]))
        for name, levels in (said.get("features") or {}).items()
    }
    return BrokerImage(broker_id, endpoints, said.get("rack"), epoch, features)


def _endpoint(text: str, protocols: Mapping[str, str] | None) -> Endpoint:
    listener, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        raise ValueError(f"{text!r} is no address of a listener")
    listener = listener.upper()
    # Before listeners had names, they were called as their protocol.
    protocol = listener if protocols is None else protocols[listener]
    return Endpoint(listener, host.removeprefix("[").removesuffix("]"), int(port), protocol)


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    """Version 2; the epoch of a KRaft controller is that of a migration, which there is none."""
    said = {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms)}
    return text_of(said | {"kraftControllerEpoch": -1})


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
    """Version 2.  Its epoch is the znode's version.

    `features`, the field, stays empty: 3.9 knows none where there is a ZooKeeper, and its brokers
    end, running or at their start, as soon as one is named there.  A field that it does not know it
    passes over, and keeps.
    """
    said: dict[str, Any] = {"features": {}, "version": 2, "status": 1}
    if features.asked or features.agreed:
        agreed = dict(features.agreed or {})
        said["kwire"] = {"asked": dict(features.asked), "agreed": agreed}
    return text_of(said)


def decode_feature(content: bytes, version: int) -> FinalizedFeatures:
    """What the members have agreed on, by a znode of this version; nothing at first."""
    said = _object(content).get("kwire") or {}
    asked, agreed = said.get("asked") or {}, said.get("agreed") or {}
    return FinalizedFeatures(_levels(asked), _levels(agreed), version)


def _levels(said: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): int(level) for name, level in said.items()}


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
class Assignment:
    """The replicas of a partition, and which of them are coming and going."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """What /brokers/topics/T says; no `id` where a broker before 2.8 has made it."""

    id: bytes | None
    assignments: Mapping[int, Assignment]


def encode_topic(topic: TopicImage) -> bytes:
    """Version 3."""
    states = tuple(enumerate(topic.partitions))
    return text_of(
        {
            "partitions": in_scala_order({str(at): list(each.replicas) for at, each in states}),
            "topic_id": uuid_text(topic.id),
            "adding_replicas": keyed_by_index((at, each.adding) for at, each in states),
            "removing_replicas": keyed_by_index((at, each.removing) for at, each in states),
            "version": 3,
        }
    )


def decode_topic(content: bytes) -> TopicZnode:
    said = _object(content)
    adding, removing = said.get("adding_replicas") or {}, said.get("removing_replicas") or {}
    assignments = {
        int(index): Assignment(
            integers(replicas), integers(adding.get(index, ())), integers(removing.get(index, ()))
        )
        for index, replicas in (said.get("partitions") or {}).items()
    }
    topic_id = said.get("topic_id")
    return TopicZnode(None if topic_id is None else uuid_bytes(topic_id), assignments)


def encode_state(state: PartitionImage) -> bytes:
    """Version 1.  Its partition epoch is the znode's version."""
    said: dict[str, Any] = {"controller_epoch": state.controller_epoch, "leader": state.leader}
    said["version"] = 1
    if state.recovering:
        said["leader_recovery_state"] = 1
    return text_of(said | {"leader_epoch": state.leader_epoch, "isr": list(state.isr)})


def decode_state(content: bytes, version: int, assignment: Assignment) -> PartitionImage:
    """The state of a partition that has these replicas, of a znode of this version."""
    said = _object(content)
    return PartitionImage(
        leader=int(said["leader"]),
        leader_epoch=int(said["leader_epoch"]),
        partition_epoch=version,
        replicas=assignment.replicas,
        isr=integers(said["isr"]),
        adding=assignment.adding,
        removing=assignment.removing,
        recovering=bool(said.get("leader_recovery_state", 0)),
        controller_epoch=int(said["controller_epoch"]),
    )


def unborn(assignment: Assignment) -> PartitionImage:
    """A partition of which no controller has said yet who leads it."""
    return PartitionImage(
        leader=NO_LEADER,
        leader_epoch=-1,
        partition_epoch=-1,
        replicas=assignment.replicas,
        isr=(),
        adding=assignment.adding,
        removing=assignment.removing,
    )


# -- what is set


def entity_path(key: ResourceKey) -> str:
    """Where it stands below /config: `topics/T`, `brokers/<default>`, `users/alice`.

    Raises LookupError for resources that have nothing set.
    """
    resource, name = key
    if resource == ENTITY_RESOURCE:
        return name
    shown = DEFAULT_ENTITY if resource == BROKER_RESOURCE and not name else sanitized(name)
    return f"{_ENTITY_TYPES[resource]}/{shown or DEFAULT_ENTITY}"


def resource_of(path: str) -> ResourceKey | None:
    """What the path below /config is about; None if that is nothing known."""
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
    """What is set; nothing where the znode is empty, damaged, or the parent of others."""
    said = parsed(content)
    configs = said.get("config") if isinstance(said, dict) else None
    if not isinstance(configs, dict):
        return {}
    return {str(name): value for name, value in configs.items() if isinstance(value, str)}


def encode_config_change(key: ResourceKey) -> bytes:
    return text_of({"version": 2, "entity_path": entity_path(key)})


def decode_config_change(content: bytes) -> ResourceKey | None:
    """What changed; None if that is nothing known.  Of version 1 it is a type and a name."""
    said = _object(content)
    if int(said["version"]) == 1:
        return resource_of(f"{said['entity_type']}/{said['entity_name']}")
    return resource_of(str(said["entity_path"]))


# -- what is asked, and told


def encode_reassignments(replicas: Mapping[Place, Sequence[int]]) -> bytes:
    partitions = [
        {"topic": topic, "partition": index, "replicas": list(ids)}
        for (topic, index), ids in replicas.items()
    ]
    return text_of({"version": 1, "partitions": partitions})


def decode_reassignments(content: bytes) -> dict[Place, tuple[int, ...]]:
    return {
        (str(each["topic"]), int(each["partition"])): integers(each["replicas"])
        for each in _object(content)["partitions"]
    }


def encode_places(places: Iterable[Place]) -> bytes:
    """Of /admin/preferred_replica_election and /isr_change_notification/*."""
    partitions = [{"topic": topic, "partition": index} for topic, index in places]
    return text_of({"version": 1, "partitions": partitions})


def decode_places(content: bytes) -> tuple[Place, ...]:
    partitions = _object(content)["partitions"]
    return tuple((str(each["topic"]), int(each["partition"])) for each in partitions)


def encode_log_dir_event(broker_id: int) -> bytes:
    return text_of({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(content: bytes) -> int:
    return int(_object(content)["broker"])


def encode_producer_ids(broker_id: int, block: range) -> bytes:
    said = {"version": 1, "broker": broker_id, "block_start": str(block.start)}
    return text_of(said | {"block_end": str(block[-1])})


def decode_next_producer_id(content: bytes | None) -> int:
    """The first id behind the block that was taken last, 0 if none was."""
    return int(_object(content)["block_end"]) + 1 if content else 0


def _object(content: bytes | None) -> dict[str, Any]:
    said = parsed(content)
    if not isinstance(said, dict):
        raise ValueError(f"{content!r} is no object of JSON")
    return said
