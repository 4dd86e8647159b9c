"""Why another broker gave no answer."""

from __future__ import annotations


class PeerError(Exception):
    """No answer from another broker: `str()` says to whom something was sent and what went wrong.

    Whether it was carried out is not known.
    """

    def __init__(self, whom: str, why: str) -> None:
        super().__init__(f"{whom}: {why}")
        self.whom = whom
        self.why = why


class NoToken(Exception):
    """Why there is no token to log in to another broker by."""
