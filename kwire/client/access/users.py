"""Users who log in by SCRAM (KIP-554), and their passwords."""

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
"""By the numbers that requests have for them."""
_NAMES: Final = {number: name for name, number in MECHANISMS.items()}
_SALT_SIZE_BYTES: Final = 24


def describe_users(cluster: Cluster, names: Sequence[str] = ()) -> dict[str, dict[str, int]]:
    """Of each of them, or of all: the iterations by mechanism.  Raises BrokerRefused."""
    wanted = [UserName(name) for name in names] or None

    def ask() -> DescribeUserScramCredentialsResponse:
        reply: DescribeUserScramCredentialsResponse = cluster.any().call(
            DescribeUserScramCredentialsRequest(wanted)
        )
        check(reply.error_code, "describe users", reply.error_message)
        for each in reply.results:
            check(each.error_code, f"describe the user {each.user}", each.error_message)
        return reply

    return {
        each.user: {
            _NAMES.get(info.mechanism, str(info.mechanism)): info.iterations
            for info in each.credential_infos
        }
        for each in sorted(cluster.retrying(ask).results, key=lambda each: each.user)
    }


def set_passwords(
    cluster: Cluster,
    passwords: Mapping[str, str],
    mechanism: str = "SCRAM-SHA-256",
    iterations: int = MIN_ITERATIONS,
) -> None:
    """Have these users log in by these passwords.  The broker is not told them.

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
    """Have these users log in by that mechanism no longer.  Raises BrokerRefused."""
    deletions = [ScramCredentialDeletion(name, MECHANISMS[mechanism]) for name in names]
    _alter(cluster, AlterUserScramCredentialsRequest(deletions, []))


def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    """By the controller: brokers of Apache Kafka 3.9 on ZooKeeper refuse it else."""

    def ask() -> None:
        reply: AlterUserScramCredentialsResponse = cluster.controller().call(request)
        for each in reply.results:
            check(each.error_code, f"change the user {each.user}", each.error_message)

    cluster.retrying(ask)
