"""SCRAM users (KIP-554): list them, set and remove their passwords."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kwire.client.cluster import Cluster
from kwire.client.errors import check
from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.codecs.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from kwire.security.sasl.scram import MIN_ITERATIONS, salted_password

MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
"""The SCRAM mechanisms with their numbers in requests."""
_NAMES: Final = {number: name for name, number in MECHANISMS.items()}
_SALT_SIZE_BYTES: Final = 24


def describe_users(cluster: Cluster, names: Sequence[str] = ()) -> dict[str, dict[str, int]]:
    """The iterations by mechanism of these users, or of all.  Raises BrokerRefused."""
    user_names = [UserName(name) for name in names] or None

    def ask() -> DescribeUserScramCredentialsResponse:
        """Sends the request once.  Raises BrokerRefused for an error of the request or of a
        user."""
        reply: DescribeUserScramCredentialsResponse = cluster.any().call(
            DescribeUserScramCredentialsRequest(user_names)
        )
        check(reply.error_code, "describe users", reply.error_message)
        for result in reply.results:
            check(result.error_code, f"describe the user {result.user}", result.error_message)
        return reply

    return {
        result.user: {
            _NAMES.get(info.mechanism, str(info.mechanism)): info.iterations
            for info in result.credential_infos
        }
        for result in sorted(cluster.retrying(ask).results, key=lambda result: result.user)
    }


def set_passwords(
    cluster: Cluster,
    passwords: Mapping[str, str],
    mechanism: str = "SCRAM-SHA-256",
    iterations: int = MIN_ITERATIONS,
) -> None:
    """Set passwords of users.  The passwords are salted here and not sent to the broker.

    Raises BrokerRefused.
    """
    upsertions = []
    for name, password in passwords.items():
        salt = os.urandom(_SALT_SIZE_BYTES)
        salted = salted_password(mechanism, password, salt, iterations)
        upsertions.append(
            ScramCredentialUpsertion(name, MECHANISMS[mechanism], iterations, salt, salted)
        )
    _alter(cluster, AlterUserScramCredentialsRequest([], upsertions))


def remove_passwords(cluster: Cluster, names: Iterable[str], mechanism: str) -> None:
    """Remove the credentials of these users for one mechanism.  Raises BrokerRefused."""
    deletions = [ScramCredentialDeletion(name, MECHANISMS[mechanism]) for name in names]
    _alter(cluster, AlterUserScramCredentialsRequest(deletions, []))


def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    """Send the request to the controller.  In clusters on ZooKeeper, other brokers refuse it."""

    def ask() -> None:
        reply: AlterUserScramCredentialsResponse = cluster.controller().call(request)
        for result in reply.results:
            check(result.error_code, f"change the user {result.user}", result.error_message)

    cluster.retrying(ask)
