"""The errors of the client.  The message of each is one sentence for the user."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode, as_error_code


class ClientError(Exception):
    """Any failure of this client.  `str()` is a message that can be shown to the user."""

    retriable = False
    """Whether the same request may succeed later, or at another broker."""


class BrokerUnreachable(ClientError):
    """The connection to a broker failed, or it was closed before the response."""

    retriable = True


class WrongBroker(ClientError):
    """The address of a broker belongs to another broker now, or to another cluster (KIP-1242)."""

    retriable = True


class RequestTimedOut(ClientError):
    """The broker got the request and did not respond in time."""

    retriable = True


class ProtocolError(ClientError):
    """The bytes are not a Kafka response: the port is not Kafka's, or it expects TLS."""


class AuthenticationFailed(ClientError):
    """The TLS handshake or the login failed.  A retry would fail, too."""


class UnsupportedRequest(ClientError):
    """This client and the broker have no version of a request in common, or the broker lacks it."""


class BrokerRefused(ClientError):
    """The broker responded with an error code.

    `what` is the operation that failed.  `topic` is the topic that the error is about, if any.
    """

    def __init__(
        self, code: int, what: str, message: str | None = None, *, topic: str | None = None
    ) -> None:
        """`what` is what was requested, and `message` the broker's own text; without one, a text of
        kwire explains `code`."""
        self.code = as_error_code(code)
        self.what = what
        self.message = message
        self.topic = topic
        reason = message or EXPLANATIONS.get(self.code, "")
        super().__init__(f"{what}: {self.code.name}" + (f" ({reason})" if reason else ""))

    @property
    def retriable(self) -> bool:  # type: ignore[override]  # a class attribute in the base
        return bool(self.code.retriable)


class Misuse(ClientError):
    """The caller asked for something impossible, such as an unknown partition or a bad offset."""


EXPLANATIONS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the cluster has no such topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader now",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the partition has moved to another broker",
    ErrorCode.MESSAGE_TOO_LARGE: "a record is larger than the topic's max.message.bytes",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas requires",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the group's coordinator is not available now",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the group's coordinator is still loading its state",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has other, active members",
    ErrorCode.NON_EMPTY_GROUP: "the group has active members: stop them first",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group does not exist",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "an active member of the group reads that topic",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic of that name exists",
    ErrorCode.INVALID_REPLICATION_FACTOR: "the cluster has fewer brokers than replicas requested",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not authorized for that topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not authorized for that group",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the partition does not hold that offset",
}
"""Explanations of common error codes, for responses without a message."""


def check(code: int, what: str, message: str | None = None, *, topic: str | None = None) -> None:
    """Raise BrokerRefused unless `code` is 0, NONE."""
    if code:
        raise BrokerRefused(code, what, message, topic=topic)
