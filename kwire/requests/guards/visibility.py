"""The operations that a sender may do on the cluster and on a topic, for responses."""

from __future__ import annotations

from kwire.cluster.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from kwire.requests.guards.base import Access
from kwire.security.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS


def cluster_operations(access: Access) -> int:
    """The bits of the operations that the sender may do on the cluster; 0 if it may not see it."""
    if not access.on_cluster(AclOperation.DESCRIBE):
        return 0
    return access.authority.operations(
        access.context, CLUSTER_OPERATIONS, ResourceType.CLUSTER, CLUSTER_NAME
    )


def topic_operations(access: Access, name: str) -> int:
    return access.authority.operations(access.context, TOPIC_OPERATIONS, ResourceType.TOPIC, name)
