"""Which topics the sender of a Fetch, ShareFetch or ShareAcknowledge may read.

A guard in front of these handlers cannot ask: what is read is what a fetch session has, and not
only what the request names.  So the handlers ask here, and nowhere else.  A topic that nobody knows
may be read: that it is unknown is told first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.coordinators.share.session import Place
    from kwire.requests.context import Context
    from kwire.requests.handlers.fetching.fetch import Fetch


def refuse_unreadable(broker: Broker, fetch: Fetch, context: Context) -> None:
    """Refuse the partitions of topics that a consumer may not read; replicas may read all."""
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


def who_may_read(broker: Broker, context: Context) -> Callable[[Place], bool] | None:
    """Whether the sender may read a share partition; None where there is no authorizer."""
    if broker.authorizer is None:
        return None
    may_read = _by_name(broker, context)
    return lambda place: may_read(broker.metadata.topic_name(place[0]))


def _by_name(broker: Broker, context: Context) -> Callable[[str | None], bool]:
    """The question for one topic, whose answer is kept for the rest of the request."""
    authorizer = broker.authorizer
    assert authorizer is not None
    known: dict[str, bool] = {}

    def may_read(name: str | None) -> bool:
        if name is None:
            return True
        if name not in known:
            known[name] = authorizer.allows(context, AclOperation.READ, ResourceType.TOPIC, name)
        return known[name]

    return may_read
