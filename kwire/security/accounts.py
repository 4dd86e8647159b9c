"""Who may log in by SCRAM, by what the cluster's metadata says now."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.cluster.metadata.credentials import credentials_of
from kwire.cluster.metadata.image import ClusterImage
from kwire.security.sasl.scram import Account, Credential

if TYPE_CHECKING:
    from kwire.security.tokens import TokenBook

log = logging.getLogger("kwire.security.accounts")


class Accounts:
    """`image` gives the latest one; `tokens` are the delegation tokens, where there may be any."""

    def __init__(self, image: Callable[[], ClusterImage], tokens: TokenBook | None = None) -> None:
        self._image = image
        self._tokens = tokens

    def find(self, mechanism: str, user: str, by_token: bool) -> Account | None:
        """Whose name that is, or, where it is a delegation token's, its owner."""
        if by_token:
            return None if self._tokens is None else self._tokens.account(mechanism, user)
        text = credentials_of(self._image(), user).get(mechanism)
        if text is None:
            return None
        try:
            return Account(Credential.parse(text), user)
        except ValueError:
            log.error("the %s credential of user %r cannot be read", mechanism, user)
            return None
