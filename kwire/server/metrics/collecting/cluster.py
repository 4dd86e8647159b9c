"""The cluster as this broker's metadata have it: controller, brokers, partitions, features.

As in a cluster of Apache Kafka, only the controller gives the numbers of the whole cluster, so that
their sum over all brokers is right; the others give 0.  Beside KRaft controllers no broker gives
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kwire.cluster.metadata.features import METADATA_VERSION
from kwire.cluster.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.broker.broker import Broker
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.server.metrics.samples import Samples


GIVEN: Final = (
    "kafka_controller_kafkacontroller_",
    "kafka_server_replicamanager_reassigningpartitions",
    "kafka_server_metadataloader_",
    "kafka_server_node_metrics_",
    "kafka_server_broker_metadata_metrics_",
    "kwire_controller_epoch",
    "kwire_partition_offline",
    "kwire_acl_count",
)
"""How the names of the metrics begin that `collect` gives."""

OFFLINE_NAMED_MAX: Final = 1000
"""Partitions without a leader that are named; the number of all is a metric of its own."""
PARTITIONS_PER_STEP: Final = 2000
"""They take 2 ms."""


def collect(broker: Broker, samples: Samples) -> Iterator[None]:
    """Give the metrics of the cluster and of its metadata; yields after each step."""
    offline_of = samples.series("kwire_partition_offline")
    image = broker.image  # one image from the first step to the last
    partitions = offline = not_preferred = moving = step = 0
    for name, topic in image.topics.items():
        partitions += len(topic.partitions)
        for index, partition in enumerate(topic.partitions):
            leader = partition.leader
            if leader == NO_LEADER:
                offline += 1
                if offline <= OFFLINE_NAMED_MAX:
                    offline_of[name, str(index)] = 1
            elif partition.replicas and leader != partition.replicas[0]:
                not_preferred += 1
            if leader == broker.node_id and (partition.adding or partition.removing):
                moving += 1
        if partitions - step >= PARTITIONS_PER_STEP:
            step = partitions
            yield
    samples.set("kafka_server_replicamanager_reassigningpartitions", moving)
    if broker.membership.forwarding is None:
        rules = broker.membership.is_controller
        numbers = {
            "activecontrollercount": 1,
            "activebrokercount": len(image.brokers),
            "fencedbrokercount": len(image.fenced),
            "globaltopiccount": len(image.topics),
            "globalpartitioncount": partitions,
            "offlinepartitionscount": offline,
            "preferredreplicaimbalancecount": not_preferred,
        }
        for name, value in numbers.items():
            samples.set(f"kafka_controller_kafkacontroller_{name}", value if rules else 0)
    _metadata(broker, image, samples)


def _metadata(broker: Broker, image: ClusterImage, samples: Samples) -> None:
    loader = "kafka_server_metadataloader_"
    samples.set(f"{loader}currentcontrollerid", image.controller_id)
    samples.set(f"{loader}currentmetadataversion", image.features.level(METADATA_VERSION))
    for name, level in image.features.in_force.items():
        samples.set(f"{loader}finalizedlevel", level, _camel_case(name))
    node = "kafka_server_node_metrics_"
    for feature, (lowest, highest) in broker.node.registration.features.items():
        name = feature.replace(".", "-")
        samples.set(f"{node}minimum_supported_level", lowest, name)
        samples.set(f"{node}maximum_supported_level", highest, name)
    metadata = "kafka_server_broker_metadata_metrics_"
    samples.set(f"{metadata}last_applied_record_offset", image.version)
    samples.set("kwire_controller_epoch", image.controller_epoch)
    samples.set("kwire_acl_count", sum(len(entries) for entries in image.acls.values()))


def _camel_case(feature: str) -> str:
    """`group.version` -> `groupVersion`, the name of a feature in Kafka's MetadataLoader."""
    first, *others = feature.split(".")
    return first + "".join(word.capitalize() for word in others)
