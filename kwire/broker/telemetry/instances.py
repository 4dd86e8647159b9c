"""The clients that are asked for metrics, one by one: a machine, as Apache Kafka's
ClientMetricsManager answers them.

| what comes | when | answer |
| --- | --- | --- |
| GetTelemetrySubscriptions | an interval since its last request, or the last push was refused for
  its subscription or its codec | what it is asked for |
| | earlier | THROTTLING_QUOTA_EXCEEDED |
| PushTelemetry | after a push that said it was the last | INVALID_REQUEST |
| | earlier than an interval after the last push, unless it asked meanwhile or says it is the last |
  THROTTLING_QUOTA_EXCEEDED |
| | of another subscription than it has now | UNKNOWN_SUBSCRIPTION_ID |
| | a codec that nobody knows | UNSUPPORTED_COMPRESSION_TYPE |
| | more than telemetry.max.bytes | TELEMETRY_TOO_LARGE |
| | else | whatever becomes of its payload |

A client whose subscriptions have changed begins anew: it is not throttled then.  It is forgotten
when the connection closes on which it was first seen, or when it says nothing for three intervals,
a minute at least.  What a client may not do changes nothing but the error that it was told last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kwire.broker.telemetry.subscriptions import Asked, Subscriptions
from kwire.codecs.compression import Compression
from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import ZERO_UUID

INSTANCES_MAX = 16_384
"""As in Apache Kafka: as many clients push to one broker; the one that was silent longest goes."""

FORGOTTEN_AFTER_MS_MIN = 60_000
FORGOTTEN_AFTER_INTERVALS = 3

RESERVED = frozenset({ZERO_UUID, bytes(15) + b"\1"})
"""Ids that are nobody's: no id, and that of the metadata topic."""

_NEVER = -(1 << 62)
_ASKS_AGAIN_AFTER = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@dataclass(slots=True)
class Instance:
    """One client, from its first request until it is forgotten or asked for something else."""

    id: bytes
    attributes: Mapping[str, str | None]
    asked: Asked
    version: int
    """Of the subscriptions that `asked` was made of."""
    asked_ms: int = _NEVER
    pushed_ms: int = _NEVER
    terminating: bool = False
    told: ErrorCode = ErrorCode.NONE
    """The last error, or none."""
    forgotten_ms: int = 0

    def may_ask(self, now_ms: int) -> bool:
        if now_ms - max(self.asked_ms, self.pushed_ms) >= self.asked.interval_ms:
            self.asked_ms = now_ms
            return True
        return self.told in _ASKS_AGAIN_AFTER

    def may_push(self, now_ms: int) -> bool:
        """The first push after a question comes whenever it likes: clients draw its time."""
        is_answer = self.asked_ms > self.pushed_ms
        if is_answer or now_ms - self.pushed_ms >= self.asked.interval_ms:
            self.pushed_ms = now_ms
            return True
        return False


@dataclass(frozen=True, slots=True)
class Push:
    """A PushTelemetry request, without its payload."""

    subscription_id: int
    terminating: bool
    compression_type: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: `attributes_of` its request, and the connection that it came on."""

    id: bytes
    attributes: Mapping[str, str | None]
    connection_id: str


Take = Callable[[Instance], ErrorCode]
"""What becomes of the payload of a push that may come."""


class ClientInstances:
    """See the module; times are in ms of one clock that does not go back."""

    def __init__(
        self, subscriptions: Subscriptions, size_bytes_max: int, instances_max: int = INSTANCES_MAX
    ) -> None:
        """`size_bytes_max`: telemetry.max.bytes."""
        self._subscriptions = subscriptions
        self._size_bytes_max = size_bytes_max
        self._instances_max = instances_max
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()
        """The one that was heard of longest ago is the first."""
        self._by_connection: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, instance_id: bytes) -> bool:
        return instance_id in self._instances

    def ask(self, client: Client, now_ms: int) -> Asked | ErrorCode:
        instance = self._instance(client, now_ms)
        if not instance.may_ask(now_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.told = ErrorCode.NONE
        return instance.asked

    def push(self, client: Client, push: Push, now_ms: int, take: Take) -> ErrorCode:
        if client.id in RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = self._instance(client, now_ms)
        error = self._refusal(instance, push, now_ms)
        instance.terminating = push.terminating
        if error is ErrorCode.NONE and push.size_bytes:
            error = take(instance)
        instance.told = error
        return error

    def disconnected(self, connection_id: str) -> None:
        """Forget who was first seen there."""
        instance_id = self._by_connection.pop(connection_id, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def _refusal(self, instance: Instance, push: Push, now_ms: int) -> ErrorCode:
        if instance.terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(now_ms) and not push.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.asked.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not 0 <= push.compression_type < len(Compression):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if push.size_bytes > self._size_bytes_max:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _instance(self, client: Client, now_ms: int) -> Instance:
        instance = self._instances.get(client.id)
        if instance is None or instance.forgotten_ms <= now_ms:
            instance = self._begin(client, client.attributes)
        elif instance.version < self._subscriptions.version:
            instance = self._begin(client, instance.attributes)
        else:
            self._instances.move_to_end(client.id)
        silence_ms = instance.asked.interval_ms * FORGOTTEN_AFTER_INTERVALS
        instance.forgotten_ms = now_ms + max(FORGOTTEN_AFTER_MS_MIN, silence_ms)
        self._drop_forgotten(now_ms)
        return instance

    def _begin(self, client: Client, attributes: Mapping[str, str | None]) -> Instance:
        asked = self._subscriptions.asked_of(client.id, attributes)
        instance = Instance(client.id, attributes, asked, self._subscriptions.version)
        self._instances[client.id] = instance
        self._instances.move_to_end(client.id)
        self._by_connection[client.connection_id] = client.id
        return instance

    def _drop_forgotten(self, now_ms: int) -> None:
        """Those at the front, and whoever is too many; who is behind is met here later."""
        while self._instances:
            oldest = next(iter(self._instances.values()))
            if oldest.forgotten_ms > now_ms and len(self._instances) <= self._instances_max:
                return
            del self._instances[oldest.id]
