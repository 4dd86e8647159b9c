"""Who may log in by SCRAM, by what the cluster's metadata says now."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kwire.metadata.credentials import credentials_of
from kwire.metadata.image import ClusterImage
from kwire.security.sasl.scram import Account, Credential

log = logging.getLogger("kwire.security.accounts")


class Accounts:
    """`image` gives the latest one."""

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image

    def find(self, mechanism: str, user: str, by_token: bool) -> Account | None:
        """Whose name that is; nobody's where it is a delegation token's."""
        if by_token:
            return None
        text = credentials_of(self._image(), user).get(mechanism)
        if text is None:
            return None
        try:
            return Account(Credential.parse(text), user)
        except ValueError:
            log.error("the %s credential of user %r cannot be read", mechanism, user)
            return None
