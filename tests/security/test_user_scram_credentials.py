"""Users of SCRAM: setting, telling and taking away what they log in by (keys 50 and 51)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cluster.metadata.credentials import credentials_of
from kwire.codecs.errors import ErrorCode
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
from kwire.security.sasl.scram import Credential
from tests.inside import RawClient, running_broker

SALT = b"0123456789abcdef"
SHA_256, SHA_512 = 1, 2
ALTERED_TWICE = "A user credential cannot be altered twice in the same request"
Told = list[tuple[str, int, str | None]]


def up(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(user, mechanism, iterations, SALT, bytes(32 * mechanism))


def down(user: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(user, mechanism)


async def alter(
    client: RawClient, *asked: ScramCredentialDeletion | ScramCredentialUpsertion
) -> Told:
    request = AlterUserScramCredentialsRequest(
        [each for each in asked if isinstance(each, ScramCredentialDeletion)],
        [each for each in asked if isinstance(each, ScramCredentialUpsertion)],
    )
    response = await client.ask(request, 0, AlterUserScramCredentialsResponse)
    return [(each.user, each.error_code, each.error_message) for each in response.results]


async def described(
    client: RawClient, *users: str
) -> dict[str, tuple[int, str | None, list[tuple[int, int]]]]:
    """By user: error, its message, mechanisms with their iterations."""
    request = DescribeUserScramCredentialsRequest([UserName(each) for each in users] or None)
    response = await client.ask(request, 0, DescribeUserScramCredentialsResponse)
    assert not response.error_code
    return {
        each.user: (
            each.error_code,
            each.error_message,
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in response.results
    }


async def test_scram_credentials_are_set_and_deleted(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        assert await described(client) == {}
        assert await alter(client, up("a"), up("b,=/ ü", SHA_512, 8192)) == [
            ("a", 0, None),
            ("b,=/ ü", 0, None),
        ]
        assert await alter(client, up("a", SHA_512)) == [("a", 0, None)]
        assert await described(client) == {
            "a": (0, "", [(1, 4096), (2, 4096)]),
            "b,=/ ü": (0, "", [(2, 8192)]),
        }
        assert await alter(client, down("a"), down("b,=/ ü", SHA_512)) == [
            ("a", 0, None),
            ("b,=/ ü", 0, None),
        ]
        assert await described(client) == {"a": (0, "", [(2, 4096)])}


async def test_scram_credentials_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await alter(await RawClient.connect(broker), up("a"))
        before = credentials_of(broker.image, "a")
    async with running_broker(tmp_path) as broker:
        assert credentials_of(broker.image, "a") == before
        assert Credential.parse(before["SCRAM-SHA-256"]).salt == SALT


async def test_salted_password_is_not_stored(tmp_path: Path) -> None:
    secret = bytes(range(100, 132))
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        await alter(client, ScramCredentialUpsertion("a", SHA_256, 4096, SALT, secret))
        kept = Credential.parse(credentials_of(broker.image, "a")["SCRAM-SHA-256"])
        assert secret not in kept


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([up("x"), up("x", SHA_512)], [("x", 92, ALTERED_TWICE)]),
        ([down("x"), up("x", SHA_512)], [("x", 92, ALTERED_TWICE)]),
        ([down("x"), down("x")], [("x", 92, ALTERED_TWICE)]),
        ([down("x"), down("x", 9)], [("x", 92, ALTERED_TWICE)]),
        (
            [down("no"), up("no", SHA_512)],
            [("no", 91, "Attempt to delete a user credential that does not exist")],
        ),
        (
            [down("x", SHA_512)],
            [("x", 91, "Attempt to delete a user credential that does not exist")],
        ),
        ([down("")], [("", 93, "Username must not be empty")]),
        ([up("", SHA_256, 1)], [("", 93, "Username must not be empty")]),
        ([up("x", 3, 1)], [("x", 33, "Unknown SCRAM mechanism")]),
        ([down("x", 7)], [("x", 33, "Unknown SCRAM mechanism")]),
        ([up("x", SHA_256, 4095)], [("x", 93, "Too few iterations")]),
        ([up("x", SHA_256, 16385)], [("x", 93, "Too many iterations")]),
        ([up("y"), up("z", SHA_256, 1)], [("y", 0, None), ("z", 93, "Too few iterations")]),
        ([], []),
    ],
)
async def test_invalid_scram_changes_are_refused(
    tmp_path: Path, asked: list[ScramCredentialDeletion | ScramCredentialUpsertion], told: Told
) -> None:
    """As Apache Kafka 4.3.1 answers the same."""
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        await alter(client, up("x"))
        before = credentials_of(broker.image, "x")
        assert await alter(client, *asked) == told
        assert credentials_of(broker.image, "x") == before


async def test_empty_salted_password_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        ((_, error, _),) = await alter(
            client, ScramCredentialUpsertion("x", SHA_256, 4096, SALT, b"")
        )
        assert error == ErrorCode.UNACCEPTABLE_CREDENTIAL


async def test_user_without_credentials_gives_resource_not_found(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        client = await RawClient.connect(broker)
        await alter(client, up("x"))
        no, twice = (
            "Attempt to describe a user credential that does not exist: ",
            "Cannot describe SCRAM credentials for the same user twice in a single request: ",
        )
        assert await described(client, "nope", "", "x", "x") == {
            "nope": (91, f"{no}nope", []),
            "": (91, no, []),
            "x": (92, f"{twice}x", []),
        }
