"""Topics: list, create, delete, add partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError, Misuse, check
from kwire.codecs.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kwire.codecs.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.codecs.messages.metadata import MetadataResponseTopic

BROKER_DEFAULT = -1
"""Number of partitions or replicas: the broker's own setting (KIP-464)."""


def list_topics(cluster: Cluster, *, internal: bool = False) -> list[MetadataResponseTopic]:
    """All topics by name; with `internal`, also Kafka's internal topics."""
    topics = cluster.retrying(lambda: cluster.refresh(None)).topics
    return sorted(
        (topic for topic in topics if internal or not topic.is_internal),
        key=lambda topic: topic.name or "",
    )


def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    assignment: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> CreatableTopicResult:
    """Create a topic.  `assignment` names the brokers of each partition in place of the counts.

    The controller responds before other brokers know the topic.  So this waits until the metadata
    of a broker have it.
    """
    topic = CreatableTopic(
        name=name,
        num_partitions=BROKER_DEFAULT if assignment else partitions,
        replication_factor=BROKER_DEFAULT if assignment else replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(assignment)
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )

    def ask() -> CreatableTopicResult:
        """Sends the request to the controller once.  Raises BrokerRefused if the topic cannot be
        created."""
        request = CreateTopicsRequest(
            topics=[topic], timeout_ms=int(cluster.timeout_s * 1000), validate_only=validate_only
        )
        result: CreatableTopicResult = cluster.controller().call(request).topics[0]
        check(result.error_code, f"create topic {name}", result.error_message, topic=name)
        return result

    made = cluster.retrying(ask)
    if not validate_only:
        _await_known(cluster, name)
    return made


def _await_known(cluster: Cluster, name: str) -> None:
    """Wait until metadata have the topic.  Errors are ignored, since the topic is created."""
    with suppress(ClientError):
        cluster.retrying(lambda: cluster.topic(name), unknown_topic_grace_s=cluster.timeout_s)


def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic and its records."""

    def ask() -> None:
        """Sends the request to the controller once, with the field for names that its version
        has."""
        connection = cluster.controller()
        request = DeleteTopicsRequest(timeout_ms=int(cluster.timeout_s * 1000))
        if connection.version_for(request) >= 6:  # KIP-516: by name or by id
            request.topics = [DeleteTopicState(name=name)]
        else:
            request.topic_names = [name]
        result = connection.call(request).responses[0]
        check(result.error_code, f"delete topic {name}", result.error_message, topic=name)

    cluster.retrying(ask)
    cluster.forget_leader(name)


def add_partitions(cluster: Cluster, name: str, count: int) -> None:
    """Raise a topic's number of partitions to `count`; keys may then go to other partitions."""
    now = len(cluster.topic(name).partitions)
    if count <= now:
        raise Misuse(f"topic {name} has {now} partitions: the number can only be raised")

    def ask() -> None:
        """Sends the request to the controller once.  Raises BrokerRefused if partitions cannot be
        added."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)],
            timeout_ms=int(cluster.timeout_s * 1000),
        )
        result = cluster.controller().call(request).results[0]
        check(result.error_code, f"add partitions to topic {name}", result.error_message)

    cluster.retrying(ask)
    cluster.forget_leader(name)
