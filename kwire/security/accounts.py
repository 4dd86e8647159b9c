"""The accounts of SCRAM users, from the latest metadata image."""

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
    """Finds SCRAM accounts.  `tokens` is None if delegation tokens are not enabled."""

    def __init__(self, image: Callable[[], ClusterImage], tokens: TokenBook | None = None) -> None:
        self._image = image
        self._tokens = tokens

    def find(self, mechanism: str, user: str, by_token: bool) -> Account | None:
        """Return the account of `user`; with `by_token` that of the delegation token with this
        id.
        """
        if by_token:
            return None if self._tokens is None else self._tokens.account(mechanism, user)
        text = credentials_of(self._image(), user).get(mechanism)
        if text is None:
            return None
        try:
            return Account(Credential.parse(text), user)
        except ValueError:
            log.error(
                "Cannot read the %s credential of user %r. Set the user's password again.",
                mechanism,
                user,
            )
            return None
