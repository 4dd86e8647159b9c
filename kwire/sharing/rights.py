"""Which topics a member may read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.metadata.acls import AclOperation, ResourceType

if TYPE_CHECKING:
    from kwire.broker import Broker
    from kwire.context import Context
    from kwire.share.session import Place


def who_may_read(broker: Broker, context: Context) -> Callable[[Place], bool] | None:
    """Says so of each partition; None where nobody asks.

    No guard before the handlers can: what is read is what the session has, not what the request
    names, and what cannot be of records comes first.  What has no name is not there.
    """
    authorizer = broker.authorizer
    if authorizer is None:
        return None
    known: dict[bytes, bool] = {}

    def may_read(place: Place) -> bool:
        topic_id = place[0]
        if topic_id not in known:
            name = broker.topic_name(topic_id)
            known[topic_id] = name is None or authorizer.allows(
                context, AclOperation.READ, ResourceType.TOPIC, name
            )
        return known[topic_id]

    return may_read
