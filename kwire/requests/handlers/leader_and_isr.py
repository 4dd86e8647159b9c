"""LeaderAndIsr (key 4): v0-7.

Behaviour
- From the controller of a cluster: which partitions this broker leads and which it follows, in
  which epochs.  kwire.cluster.replication.manager says what is refused.
- A broker alone does not serve it: the connection is closed, as for a key that does not exist.

Version notes: new partitions from v1; the broker's epoch, and partitions by topic, from v2;
reassigned replicas from v3; flexible from v4; topic ids, in the reply too, from v5; the leader's
recovery from v6; from KRaft controllers v7.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kwire.requests.routes import not_served

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from kwire.requests.context import Context


def handle(
    broker: Broker, request: LeaderAndIsrRequest, context: Context
) -> LeaderAndIsrResponse | Awaitable[LeaderAndIsrResponse]:
    if broker.membership.replication is None:
        raise not_served(context.api_key)
    return broker.membership.leader_and_isr(request, context.api_version)
