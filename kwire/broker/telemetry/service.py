"""Client telemetry of one broker (KIP-714): subscriptions, clients, and the metrics they push."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kwire.broker.telemetry.instances import ClientInstances, Instance, Push, TelemetryClient
from kwire.broker.telemetry.subscriptions import Subscription, Subscriptions, attributes_of
from kwire.broker.telemetry.topic import TelemetryTopic, pushed
from kwire.codecs.compression import Compression, decompress
from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import ZERO_UUID
from kwire.codecs.record import CorruptBatch
from kwire.codecs.uuids import random_uuid
from kwire.settings import ConfigError, ConfigResourceType

if TYPE_CHECKING:
    from kwire.broker.node import Node
    from kwire.broker.telemetry.subscriptions import AssignedSubscription
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.cluster.metadata.image import ResourceKey
    from kwire.codecs.messages.push_telemetry import PushTelemetryRequest
    from kwire.requests.context import Context

log = logging.getLogger("kwire.telemetry")


class ClientTelemetry:
    """The telemetry of one broker; it is created at the first request of a client."""

    def __init__(self, node: Node, membership: ClusterMembership) -> None:
        """Begin with the subscriptions of the metadata, and start the task that writes metrics."""
        self._node = node
        self._subscriptions = Subscriptions()
        self.size_bytes_max: int = node.config.telemetry_max_bytes
        self._instances = ClientInstances(self._subscriptions, self.size_bytes_max)
        self.topic = TelemetryTopic(node, membership)
        self.follow(node.image.configs)
        if node.nursery is not None:
            node.nursery.start_soon(self.topic.run)

    def follow(self, changed: Mapping[ResourceKey, Mapping[str, str]]) -> None:
        """Apply changed subscriptions; `changed` has all configs of each changed resource."""
        for (kind, name), configs in changed.items():
            if kind == ConfigResourceType.CLIENT_METRICS:
                self._subscriptions.set(name, _subscription(name, configs) if configs else None)

    @property
    def instance_count(self) -> int:
        """The number of clients that have asked for their subscription."""
        return len(self._instances)

    def knows(self, instance_id: bytes) -> bool:
        return instance_id in self._instances

    def ask(
        self, instance_id: bytes, context: Context
    ) -> tuple[bytes, AssignedSubscription | ErrorCode]:
        """Return the client's instance id (a new one for the zero id), and its subscription or
        error.
        """
        if instance_id == ZERO_UUID:
            instance_id = random_uuid(os.urandom)
            while self.knows(instance_id):
                instance_id = random_uuid(os.urandom)
        return instance_id, self._instances.ask(_sender(instance_id, context), self._now_ms())

    def push(self, request: PushTelemetryRequest, context: Context) -> ErrorCode:
        """Check and store the metrics of a PushTelemetry request; return the error or NONE."""

        def take(instance: Instance) -> ErrorCode:
            return self._take(instance, request, context)

        push = Push(
            request.subscription_id,
            request.terminating,
            request.compression_type,
            len(request.metrics),
        )
        sender = _sender(bytes(request.client_instance_id), context)
        return self._instances.push(sender, push, self._now_ms(), take)

    def disconnected(self, connection_id: str) -> None:
        self._instances.disconnected(connection_id)

    def _take(
        self, instance: Instance, request: PushTelemetryRequest, context: Context
    ) -> ErrorCode:
        """Decompress a payload and give it to the topic's writer; returns an error or NONE.

        `telemetry.max.bytes` limits the decompressed payload, too.  Without a subscription the
        payload is dropped: any client may push, and no administrator would look for it.
        """
        codec = Compression(request.compression_type)
        try:
            payload = decompress(codec, request.metrics, self.size_bytes_max)
        except CorruptBatch as error:
            log.info("Cannot read metrics that %s pushed: %s", context.connection_id, error)
            return ErrorCode.INVALID_RECORD
        if instance.asked.metrics:
            record = pushed(
                instance.id,
                instance.attributes,
                context.principal,
                payload,
                self._node.now_ms(),
                terminating=request.terminating,
            )
            self.topic.keep(record)
        return ErrorCode.NONE

    def _now_ms(self) -> int:
        return int(self._node.timers.now_ms())


def _sender(instance_id: bytes, context: Context) -> TelemetryClient:
    return TelemetryClient(instance_id, attributes_of(instance_id, context), context.connection_id)


def _subscription(name: str, configs: Mapping[str, str]) -> Subscription | None:
    """Return the subscription, or None if its configs are invalid.

    That happens in a data folder of Apache Kafka, with a pattern that only Java can read.
    """
    try:
        return Subscription.of(configs)
    except ConfigError as error:
        log.error("The client metrics subscription %s is ignored: %s", name, error)
        return None
