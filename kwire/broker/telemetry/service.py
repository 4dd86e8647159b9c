"""Client telemetry of one broker: its subscriptions, its clients, and what they pushed."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kwire.broker.telemetry.instances import Client, ClientInstances, Instance, Push
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
    from kwire.broker.telemetry.subscriptions import Asked
    from kwire.cluster.membership.contract import ClusterMembership
    from kwire.cluster.metadata.image import ResourceKey
    from kwire.codecs.messages.push_telemetry import PushTelemetryRequest
    from kwire.requests.context import Context

log = logging.getLogger("kwire.telemetry")


class ClientTelemetry:
    """Made when a client first asks; follows the cluster's subscriptions from then on."""

    def __init__(self, node: Node, membership: ClusterMembership) -> None:
        self._node = node
        self._subscriptions = Subscriptions()
        self.size_bytes_max: int = node.config.telemetry_max_bytes
        self._instances = ClientInstances(self._subscriptions, self.size_bytes_max)
        self.topic = TelemetryTopic(node, membership)
        self.follow(node.image.configs)
        if node.nursery is not None:
            node.nursery.start_soon(self.topic.run)

    def follow(self, changed: Mapping[ResourceKey, Mapping[str, str]]) -> None:
        """All that is set now on resources whose configs changed."""
        for (kind, name), configs in changed.items():
            if kind == ConfigResourceType.CLIENT_METRICS:
                self._subscriptions.set(name, _subscription(name, configs) if configs else None)

    def knows(self, instance_id: bytes) -> bool:
        return instance_id in self._instances

    def ask(self, instance_id: bytes, context: Context) -> tuple[bytes, Asked | ErrorCode]:
        """What a client is to push, and by which id it goes: a new one where it has none."""
        if instance_id == ZERO_UUID:
            instance_id = random_uuid(os.urandom)
            while self.knows(instance_id):
                instance_id = random_uuid(os.urandom)
        return instance_id, self._instances.ask(_client(instance_id, context), self._now_ms())

    def push(self, request: PushTelemetryRequest, context: Context) -> ErrorCode:
        def take(instance: Instance) -> ErrorCode:
            return self._take(instance, request, context)

        push = Push(
            request.subscription_id,
            request.terminating,
            request.compression_type,
            len(request.metrics),
        )
        client = _client(bytes(request.client_instance_id), context)
        return self._instances.push(client, push, self._now_ms(), take)

    def disconnected(self, connection_id: str) -> None:
        self._instances.disconnected(connection_id)

    def _take(
        self, instance: Instance, request: PushTelemetryRequest, context: Context
    ) -> ErrorCode:
        """Payloads are limited after they are decompressed, too.

        What nobody has asked for is let go of: anybody may push, and nobody would look for it.
        """
        codec = Compression(request.compression_type)
        try:
            payload = decompress(codec, request.metrics, self.size_bytes_max)
        except CorruptBatch as problem:
            log.info("%s pushed what cannot be read: %s", context.connection_id, problem)
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


def _client(instance_id: bytes, context: Context) -> Client:
    return Client(instance_id, attributes_of(instance_id, context), context.connection_id)


def _subscription(name: str, configs: Mapping[str, str]) -> Subscription | None:
    """None for one that means nobody: it came with a directory, and has a pattern of Java's."""
    try:
        return Subscription.of(configs)
    except ConfigError as problem:
        log.error("the client metrics subscription %s counts for nobody: %s", name, problem)
        return None
