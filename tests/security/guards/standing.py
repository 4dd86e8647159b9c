"""A guard between a sender with some rights and a handler that tells what it was left to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from kwire.cluster.metadata.acls import (
    CLUSTER_NAME,
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from kwire.codecs.api_keys import ApiKey
from kwire.requests.context import Context
from kwire.requests.guards.base import Access
from kwire.security.authority import Authority
from kwire.security.authorizer import AclAuthorizer
from kwire.settings import BrokerConfig

if TYPE_CHECKING:
    from kwire.broker.broker import Broker

SENDER = "User:a"
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
TRANSACTION = ResourceType.TRANSACTIONAL_ID
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
)
ON_CLUSTER = (ResourceType.CLUSTER, CLUSTER_NAME)

STATE = PartitionImage(1, 0, 0, (1,), (1,))
IDS = {name: name.encode() * 16 for name in ("t", "u", "v", "w")}
IMAGE = ClusterImage("").with_topics(
    [TopicImage(name, topic_id, (STATE, STATE)) for name, topic_id in IDS.items()]
)

Right = tuple[AclOperation, ResourceType, str]


def on(kind: ResourceType, operation: AclOperation, *names: str) -> list[Right]:
    return [(operation, kind, name) for name in names]


def on_cluster(*operations: AclOperation) -> list[Right]:
    return [(each, *ON_CLUSTER) for each in operations]


def access(
    *rights: Right, version: int = 0, api_key: ApiKey = ApiKey.FETCH, **settings: str
) -> Access:
    """The access of a sender with `rights`; `settings` are those of the broker."""
    lists: dict[ResourcePattern, frozenset[AccessControlEntry]] = {}
    for operation, kind, name in rights:
        entry = AccessControlEntry(SENDER, "*", operation, AclPermissionType.ALLOW)
        pattern = ResourcePattern(kind, PatternType.LITERAL, name)
        lists[pattern] = lists.get(pattern, frozenset()) | {entry}
    rules = AclAuthorizer()
    rules.follow(lists)
    broker = SimpleNamespace(
        image=IMAGE,
        metadata=SimpleNamespace(topic_name=IMAGE.names_by_id.get),
        config=BrokerConfig({name.replace("_", "."): value for name, value in settings.items()}),
    )
    context = Context("PLAINTEXT", "127.0.0.1", "-", SENDER, api_key, version)
    return Access(cast("Broker", broker), Authority(rules), context)


class Handler:
    """Returns `answer` for each request; `asked` has the requests that it received."""

    def __init__(self, answer: Any = None) -> None:  # noqa: ANN401 - of each API key its own
        self._answer = answer
        self.asked: list[Any] = []

    def __call__(self, request: Any) -> Any:  # noqa: ANN401 - of each API key its own
        self.asked.append(request)
        return self._answer
