"""What a handler may know of the request besides its body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client that has not said who it is."""


class CloseConnection(Exception):
    """The request can only be answered by closing its connection; the message is for the log."""


class InvalidFrame(CloseConnection):
    """What came in is not a request; the connection cannot be understood any longer."""


class InvalidSize(InvalidFrame):
    """The size before a request is none that a request may have."""


@dataclass(slots=True)
class Context:
    """The circumstances of the request being handled.

    A connection owns one Context and refills it for each request: its requests are handled one
    after the other, so a handler may read it until its reply is made, and copies what it keeps.
    """

    listener: str
    """Name of the listener the client came in by; decides which advertised address it is told."""
    client_host: str
    """The client's address as DescribeGroups prints it, without the slash."""
    connection_id: str
    """`local-remote-number`, unique while the broker runs; names the connection in the log."""
    principal: str = ANONYMOUS
    api_key: int = -1
    api_version: int = -1
    client_id: str | None = None
    """From the request header; null and empty are different on the wire and both legal."""
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    features_epoch: int = -1
    """That of the finalized features that ApiVersions has told on this connection; -1 if none."""
    by_token: bool = False
    """Whether its client logged in by a delegation token."""
    joins_groups: bool = False
    """Whether a JoinGroup came this way."""
    on_end: Callable[[], None] | None = None
    """Called when the connection is gone; once, and it raises nothing."""
    may_describe: Callable[[str], bool] | None = None
    """Which topics the sender of this request may know of, where somebody asks; None: all."""
    may_create: Callable[[str], bool] | None = None
    """Which topics the sender of this request may make, likewise."""
    told_missing: dict[str, float] | None = None
    """Topics that Metadata made for this client while it told it that they are not there, with the
    time, on trio's clock, until which it says so: see kwire.requests.handlers.metadata."""

    @property
    def client_port(self) -> str:
        return self.connection_id.rpartition("-")[0].rpartition(":")[2]

    @property
    def user(self) -> str:
        """The principal's name without its type, which quotas go by."""
        return self.principal.partition(":")[2]
