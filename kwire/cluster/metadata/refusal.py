"""A client's mistake on its way from the rule that it breaks to the response that tells of it."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode


class Refusal(Exception):
    """One entry of a request cannot be done; `message` is what Kafka's tools print."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message
