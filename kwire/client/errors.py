"""What goes wrong between a client and its cluster, each as one sentence for a person."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode


class ClientError(Exception):
    """Any failure of this client; `str()` is a sentence that can be shown as it is."""

    retriable = False
    """Whether the same request may succeed a moment later, perhaps at another broker."""


class BrokerUnreachable(ClientError):
    """No connection to a broker, or it broke off before the reply."""

    retriable = True


class RequestTimedOut(ClientError):
    """The broker took the request and did not reply in time."""

    retriable = True


class ProtocolError(ClientError):
    """The bytes are not a Kafka reply: something else listens there, or TLS is expected."""


class AuthenticationFailed(ClientError):
    """One side does not believe who the other is; asking again would change nothing."""


class UnsupportedRequest(ClientError):
    """This client and the broker have no version of a request in common."""


class BrokerRefused(ClientError):
    """The broker replied with an error code; `topic` is what it is about, where it is one."""

    def __init__(
        self, code: int, what: str, message: str | None = None, *, topic: str | None = None
    ) -> None:
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
    """The caller asked for something that cannot be: an unknown partition, a bad offset."""


EXPLANATIONS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the cluster has no such topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader now",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the partition has moved to another broker",
    ErrorCode.MESSAGE_TOO_LARGE: "a record is larger than the topic's max.message.bytes",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas asks for",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "the group's coordinator is not available now",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "the group's coordinator is still reading its log",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has other, active members",
    ErrorCode.NON_EMPTY_GROUP: "the group has active members: stop them first",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "an active member of the group reads that topic",
    ErrorCode.TOPIC_ALREADY_EXISTS: "there is a topic of that name",
    ErrorCode.INVALID_REPLICATION_FACTOR: "there are fewer brokers than replicas asked for",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not authorized for that topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not authorized for that group",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the partition does not hold that offset",
}
"""For the codes that people meet, where the broker sends no words of its own."""


def as_error_code(code: int) -> ErrorCode:
    """The code by its name; one of a newer broker that has no name here becomes UNKNOWN."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def check(code: int, what: str, message: str | None = None, *, topic: str | None = None) -> None:
    """Raise BrokerRefused unless `code` says that all is well."""
    if code:
        raise BrokerRefused(code, what, message, topic=topic)
