"""The request by which a member asks a controller for topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.codecs.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

if TYPE_CHECKING:
    from kwire.cluster.decisions.topic_creation import NewTopic


def creation_request(wanted: Iterable[NewTopic], timeout_ms: int) -> CreateTopicsRequest:
    """Return CreateTopics for topics without assignments."""
    return CreateTopicsRequest(
        [
            CreatableTopic(
                each.name,
                each.num_partitions,
                each.replication_factor,
                configs=[CreatableTopicConfig(*item) for item in each.configs.items()],
            )
            for each in wanted
        ],
        timeout_ms=timeout_ms,
    )
