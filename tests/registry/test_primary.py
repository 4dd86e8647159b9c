"""The election of a primary, as bytes."""

from __future__ import annotations

import json

import pytest

from kwire.registry.primary import (
    DUPLICATE_URLS,
    Elected,
    InstanceIdentity,
    elect,
    read_assignment,
    read_identity,
    write_assignment,
)


def metadata(*identities: InstanceIdentity) -> dict[str, bytes]:
    """The metadata of members m0, m1, ..."""
    return {
        f"m{number}": json.dumps(identity.fields()).encode()
        for number, identity in enumerate(identities)
    }


def test_eligible_member_with_the_first_url_is_elected() -> None:
    second, first = InstanceIdentity("b", 8081), InstanceIdentity("a", 8081)
    assert elect(metadata(second, first)) == Elected("m1", first)
    never = InstanceIdentity("a", 8081, is_eligible=False)
    assert elect(metadata(second, never)) == Elected("m0", second)
    assert elect(metadata(never)) == Elected(None, None)


def test_members_with_one_url_are_an_error() -> None:
    same = InstanceIdentity("a", 8081)
    assert elect(metadata(same, same)) == Elected("m0", same, DUPLICATE_URLS)


@pytest.mark.parametrize(
    "elected",
    [
        Elected("m", InstanceIdentity("::1", 1, "https")),
        Elected(None, None),
        Elected("m", InstanceIdentity("h", 2), 1),
    ],
)
def test_assignment_is_read_as_it_was_written(elected: Elected) -> None:
    assert read_assignment(write_assignment(elected)) == elected


def test_assignment_of_confluents_registry_is_read() -> None:
    data = (
        b'{"version":1,"error":0,"master":"sr-1-x","master_identity":{"version":1,"host":"h",'
        b'"port":8081,"master_eligibility":true,"scheme":"http","leader":true}}'
    )
    assert read_assignment(data) == Elected("sr-1-x", InstanceIdentity("h", 8081))


def test_url_of_an_ipv6_address_has_brackets() -> None:
    assert InstanceIdentity("::1", 8081).url == "http://[::1]:8081"


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"master_identity":{"host":"h"}}'])
def test_assignment_that_is_none_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of json, or of this module
        read_assignment(data)


def test_identity_without_port_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs a host and a port"):
        read_identity({"host": "h"})
