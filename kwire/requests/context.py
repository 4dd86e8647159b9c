"""The context of a request: everything but its body that a handler may need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that has not authenticated."""


class CloseConnection(Exception):
    """The broker can answer the request only by closing the connection; the message is logged."""


class InvalidFrame(CloseConnection):
    """The bytes received are not a request; where the next request starts is unknown."""


class InvalidSize(InvalidFrame):
    """The size field before a request is negative or above the limit."""


@dataclass(slots=True)
class Context:
    """The sender and the header of the request being handled.

    A connection owns one Context and overwrites it for each request.  It handles its requests one
    after the other, so a handler may read the context until its response is ready.  It must copy
    what it needs later.
    """

    listener: str
    """Name of the listener that accepted the connection; it decides which advertised addresses the
    client gets."""
    client_host: str
    """The client's address, in the form of DescribeGroups but without its leading slash."""
    connection_id: str
    """`local-remote-number`, unique as long as the broker runs; names the connection in the log."""
    principal: str = ANONYMOUS
    api_key: int = -1
    api_version: int = -1
    client_id: str | None = None
    """From the request header; null and empty are different and both valid."""
    client_id_bytes: bytes | None = None
    """The client id as it was sent."""
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    features_epoch: int = -1
    """Epoch of the finalized features in this connection's last ApiVersions response, or -1."""
    by_token: bool = False
    """Whether the client authenticated with a delegation token."""
    joins_groups: bool = False
    """Whether a JoinGroup request came on this connection."""
    on_end: Callable[[], None] | None = None
    """Called once when the connection is closed; raises nothing."""
    may_describe: Callable[[str], bool] | None = None
    """Says whether the sender of this request may see a topic; None: it may see all."""
    may_create: Callable[[str], bool] | None = None
    """Says whether the sender of this request may create a topic; None: it may create all."""
    hidden_topics: dict[str, float] | None = None
    """Topics that Metadata created for this client but still reports as unknown, each with the time
    on trio's clock when that ends: see kwire.requests.handlers.metadata."""

    @property
    def client_port(self) -> str:
        return self.connection_id.rpartition("-")[0].rpartition(":")[2]

    @property
    def user(self) -> str:
        """The principal's name without its type; user quotas use it."""
        return self.principal.partition(":")[2]
