"""TestedMembership: the membership of a broker whose controller is the test."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import trio

from kwire.broker.broker import Broker
from kwire.cluster.membership.alone import LoneMembership
from kwire.cluster.metadata.image import ResourceKey
from kwire.cluster.replication.context import ReplicationContext
from kwire.cluster.replication.controller_requests import ControllerRequests
from kwire.cluster.replication.manager import ReplicaManager
from kwire.codecs.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from kwire.log import Log


class TestedMembership(LoneMembership):
    """Makes itself the membership of `broker`."""

    __test__ = False  # pytest takes the name for a test

    def __init__(self, broker: Broker, context: ReplicationContext, nursery: trio.Nursery) -> None:
        super().__init__(broker.node)
        self.replication: ReplicaManager = ReplicaManager(context, nursery)
        self.controller_requests: ControllerRequests = ControllerRequests(
            self.replication, context, nursery
        )
        self._context = context
        broker.membership = self

    async def leader_and_isr(
        self, request: LeaderAndIsrRequest, version: int
    ) -> LeaderAndIsrResponse:
        return self.controller_requests.leader_and_isr(request, version)

    def configs_changed(self, changed: Collection[ResourceKey]) -> None:
        self.replication.configs_changed(changed)

    def logs_lost(self, path: Path, lost: list[Log]) -> bool:
        self.replication.logs_lost(lost)
        assert self._node.nursery is not None
        self._node.nursery.start_soon(self._context.report_offline)
        return True
