"""The clients of client telemetry: a state machine like Apache Kafka's ClientMetricsManager.

| request | condition | response |
| --- | --- | --- |
| GetTelemetrySubscriptions | an interval after the last request, or after a push that was refused
  for its subscription or codec | the subscription |
| | earlier | THROTTLING_QUOTA_EXCEEDED |
| PushTelemetry | after a terminating push | INVALID_REQUEST |
| | less than an interval after the last push; not if the client has asked for its subscription
  meanwhile, or terminates | THROTTLING_QUOTA_EXCEEDED |
| | another subscription id than the client's | UNKNOWN_SUBSCRIPTION_ID |
| | an unknown codec | UNSUPPORTED_COMPRESSION_TYPE |
| | more than telemetry.max.bytes | TELEMETRY_TOO_LARGE |
| | else | the result of reading the payload |

A client whose subscription has changed starts over, and is not throttled then.  A client is
forgotten when the connection of its first request closes, or after three intervals without a
request, but not within a minute.  A refused request changes nothing but the client's last error.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kwire.broker.telemetry.subscriptions import AssignedSubscription, Subscriptions
from kwire.codecs.compression import Compression
from kwire.codecs.errors import ErrorCode
from kwire.codecs.primitives import ZERO_UUID

INSTANCES_MAX = 16_384
"""The most clients of a broker, as in Apache Kafka; above it the longest silent one is dropped."""

FORGOTTEN_AFTER_MS_MIN = 60_000
FORGOTTEN_AFTER_INTERVALS = 3

RESERVED = frozenset({ZERO_UUID, bytes(15) + b"\1"})
"""Ids that no client may have: the zero id, and that of the metadata topic."""

_NEVER = -(1 << 62)
_ASKS_AGAIN_AFTER = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


@dataclass(slots=True)
class Instance:
    """One client, from its first request until it is forgotten or its subscription changes."""

    id: bytes
    attributes: Mapping[str, str | None]
    asked: AssignedSubscription
    version: int
    """The version of the subscriptions that `asked` was made of."""
    asked_ms: int = _NEVER
    pushed_ms: int = _NEVER
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE
    forgotten_ms: int = 0
    """The time from which the client is forgotten."""

    def may_ask(self, now_ms: int) -> bool:
        """Whether the client may ask for its subscription now; notes the time if it may."""
        if now_ms - max(self.asked_ms, self.pushed_ms) >= self.asked.interval_ms:
            self.asked_ms = now_ms
            return True
        return self.last_error in _ASKS_AGAIN_AFTER

    def may_push(self, now_ms: int) -> bool:
        """Return whether the client may push now; notes the time if it may.

        The first push after GetTelemetrySubscriptions may come at any time: clients draw it.
        """
        is_first = self.asked_ms > self.pushed_ms
        if is_first or now_ms - self.pushed_ms >= self.asked.interval_ms:
            self.pushed_ms = now_ms
            return True
        return False


@dataclass(frozen=True, slots=True)
class Push:
    """A PushTelemetry request without its payload."""

    subscription_id: int
    terminating: bool
    compression_type: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TelemetryClient:
    """The client of a request: `attributes_of` the request, and its connection."""

    id: bytes
    attributes: Mapping[str, str | None]
    connection_id: str


Take = Callable[[Instance], ErrorCode]
"""Handles the payload of an accepted push."""


class ClientInstances:
    """All clients of one broker.  Times are in ms of a clock that never goes back."""

    def __init__(
        self, subscriptions: Subscriptions, size_bytes_max: int, instances_max: int = INSTANCES_MAX
    ) -> None:
        """`size_bytes_max` is `telemetry.max.bytes`."""
        self._subscriptions = subscriptions
        self._size_bytes_max = size_bytes_max
        self._instances_max = instances_max
        self._instances: OrderedDict[bytes, Instance] = OrderedDict()
        """In the order of the last requests, the oldest first."""
        self._by_connection: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, instance_id: bytes) -> bool:
        return instance_id in self._instances

    def ask(self, client: TelemetryClient, now_ms: int) -> AssignedSubscription | ErrorCode:
        """Return the client's subscription; THROTTLING_QUOTA_EXCEEDED if it asks too early."""
        instance = self._instance(client, now_ms)
        if not instance.may_ask(now_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.last_error = ErrorCode.NONE
        return instance.asked

    def push(self, client: TelemetryClient, push: Push, now_ms: int, take: Take) -> ErrorCode:
        """Check a push and let `take` store its metrics; return the error, NONE if it is accepted.

        INVALID_REQUEST for a reserved client id. A push without metrics is accepted without `take`.
        """
        if client.id in RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = self._instance(client, now_ms)
        error = self._refusal(instance, push, now_ms)
        instance.terminating = push.terminating
        if error is ErrorCode.NONE and push.size_bytes:
            error = take(instance)
        instance.last_error = error
        return error

    def disconnected(self, connection_id: str) -> None:
        """Forget the client whose first request came on this connection."""
        instance_id = self._by_connection.pop(connection_id, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def _refusal(self, instance: Instance, push: Push, now_ms: int) -> ErrorCode:
        """Return why a push is refused, else NONE; the order of the checks is Kafka's.

        The last push of a client that terminates may come early.
        """
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

    def _instance(self, client: TelemetryClient, now_ms: int) -> Instance:
        """Return the client's state; begin it anew if it is unknown, forgotten or outdated.

        It is outdated if the subscriptions have changed. A client is forgotten after some of its
        intervals without a request.
        """
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

    def _begin(self, client: TelemetryClient, attributes: Mapping[str, str | None]) -> Instance:
        """Begin the state of a client with the subscriptions that match its attributes."""
        asked = self._subscriptions.asked_of(client.id, attributes)
        instance = Instance(client.id, attributes, asked, self._subscriptions.version)
        self._instances[client.id] = instance
        self._instances.move_to_end(client.id)
        self._by_connection[client.connection_id] = client.id
        return instance

    def _drop_forgotten(self, now_ms: int) -> None:
        """Drop the oldest clients while they are to be forgotten, or there are too many.

        A client behind a newer limit is dropped by a later call.
        """
        while self._instances:
            oldest = next(iter(self._instances.values()))
            if oldest.forgotten_ms > now_ms and len(self._instances) <= self._instances_max:
                return
            del self._instances[oldest.id]
