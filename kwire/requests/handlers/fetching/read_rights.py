"""Topics that the sender of a Fetch, ShareFetch or ShareAcknowledge may read.

A guard before these handlers cannot check this: they also read partitions of the session that the
request does not name.  So the handlers call these functions.  A topic that does not exist may be
read, so that the handler can answer that it is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.coordinators.share.session import TopicIdPartition
    from kwire.requests.context import Context
    from kwire.requests.handlers.fetching.fetch import Fetch


def refuse_unreadable(broker: Broker, fetch: Fetch, context: Context) -> None:
    """Refuse the partitions of topics that a consumer may not read; a follower may read all."""
    if broker.authorizer is None or fetch.from_replica:
        return
    may_read = _by_name(broker, context)
    name_of = broker.metadata.topic_name
    denied = [
        key
        for key, target in fetch.plan.targets.items()
        if not may_read(target.topic or name_of(target.topic_id))
    ]
    if denied:
        fetch.refuse(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def who_may_read(broker: Broker, context: Context) -> Callable[[TopicIdPartition], bool] | None:
    """A function that says whether the sender may read a share partition; None: it may read all."""
    if broker.authorizer is None:
        return None
    may_read = _by_name(broker, context)
    return lambda place: may_read(broker.metadata.topic_name(place[0]))


def _by_name(broker: Broker, context: Context) -> Callable[[str | None], bool]:
    """A function that says whether the sender may read a topic; it asks once per topic."""
    authorizer = broker.authorizer
    assert authorizer is not None
    allowed: dict[str, bool] = {}

    def may_read(name: str | None) -> bool:
        """Return whether the sender may read the topic; True if it does not exist (None)."""
        if name is None:
            return True
        if name not in allowed:
            allowed[name] = authorizer.allows(context, AclOperation.READ, ResourceType.TOPIC, name)
        return allowed[name]

    return may_read
