"""Errors of requests to other brokers."""

from __future__ import annotations


class PeerError(Exception):
    """A request to another broker got no answer; the text names the broker and the reason.

    The other broker may have carried out the request.
    """

    def __init__(self, peer_name: str, why: str) -> None:
        super().__init__(f"{peer_name}: {why}")
        self.peer_name = peer_name
        self.why = why


class NoBrokerToken(Exception):
    """This broker could not get a token to log in to another broker; the text says why."""
