"""A client's mistake, raised where a rule is checked and turned into a response later."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode


class Refusal(Exception):
    """One entry of a request cannot be done.  Kafka's tools print `message`."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message
