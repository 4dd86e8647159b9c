"""Basic authentication: users and their passwords, from a file.

A line of the file is `USER: PASSWORD`, as in the files of Jetty's property login, which Confluent's
registry reads; roles after a comma are not used.  Lines with `#` in front are comments.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

REALM: Final = "kwire-registry"
ENCODED: Final = ("OBF:", "MD5:", "CRYPT:")
"""Forms of passwords that Jetty reads, and this registry does not."""


class Users:
    """Who may ask."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        """`passwords` by the name of the user."""
        self._digests = {user: _digest(password) for user, password in passwords.items()}
        self._nobody = _digest(secrets.token_hex())

    def allows(self, authorization: str) -> bool:
        """Whether the header names a user with its password.

        The time that it takes does not tell whether there is such a user.
        """
        scheme, _, encoded = authorization.partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            user, colon, password = base64.b64decode(encoded.strip()).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        expected = self._digests.get(user, self._nobody)
        is_right = secrets.compare_digest(_digest(password), expected)
        return is_right and bool(colon) and user in self._digests


def _digest(password: str) -> bytes:
    """The SHA-256 of a password.  All digests have one length, so that comparing two of them takes
    the same time for every password."""
    return hashlib.sha256(password.encode()).digest()


def read_users(path: Path) -> Users:
    """The users in a file.  Raises OSError, and ValueError with a sentence if a line is wrong."""
    passwords = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        user, colon, rest = text.partition(":")
        password = rest.split(",")[0].strip()
        if not colon or not user.strip() or not password:
            raise ValueError(f"{path}, line {number}: expected USER: PASSWORD")
        if password.startswith(ENCODED):
            raise ValueError(f"{path}, line {number}: write the password itself, not {ENCODED}")
        passwords[user.strip()] = password
    if not passwords:
        raise ValueError(f"{path} has no users")
    return Users(passwords)
