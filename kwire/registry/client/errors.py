"""The errors of a registry.  The message of each is one sentence for the user."""

from __future__ import annotations

from kwire.client.errors import ClientError


class RegistryFailure(ClientError):
    """Any failure of a request to a registry."""


class RegistryUnreachable(RegistryFailure):
    """No address of the registry answers, or what answers is no registry."""

    retriable = True


class RegistryRefused(RegistryFailure):
    """The registry answers with an error.

    `status` is that of HTTP.  `code` is the registry's own, such as 40401 for an unknown subject;
    it is the status if the answer has none.
    """

    def __init__(self, status: int, code: int, message: str) -> None:
        """`message` is the registry's own, or empty."""
        self.status = status
        self.code = code
        self.message = message
        what = f"the registry answers with status {status}"
        if code != status:
            what += f" and error {code}"
        super().__init__(f"{what}: {message}" if message else what)


SUBJECT_NOT_FOUND = 40401
SCHEMA_NOT_FOUND = 40403
"""Codes of Confluent Schema Registry's documentation, API reference."""
