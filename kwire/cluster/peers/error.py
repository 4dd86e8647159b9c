"""Errors of requests to other brokers."""

from __future__ import annotations


class PeerError(Exception):
    """A request to another broker got no answer; the text names the broker and the reason.

    The other broker may have carried out the request.
    """

    def __init__(self, whom: str, why: str) -> None:
        super().__init__(f"{whom}: {why}")
        self.whom = whom
        self.why = why


class NoBrokerToken(Exception):
    """This broker could not get a token to log in to another broker; the text says why."""
