"""A request that is sent on, to a primary that takes it and does not answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kwire.registry.primary import InstanceIdentity
from kwire.registry.rest.forwarding import Forwarder, SendAgain
from kwire.registry.subjects.errors import RegistryError
from kwire.server.http.messages import HttpRequest
from tests.commands.descriptors import many_descriptors


@pytest.fixture
def paused() -> Iterator[InstanceIdentity]:
    """The address of a process that is paused: its system accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield InstanceIdentity("127.0.0.1", listener.getsockname()[1])


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_request_to_a_replaced_primary_may_be_sent_again(
    paused: InstanceIdentity, method: str
) -> None:
    with pytest.raises(SendAgain, match="another instance became the leader"):
        Forwarder().forward(paused, HttpRequest(method, "/config", {}, b"{}"), lambda: True)


def test_deletion_at_a_replaced_primary_has_failed(paused: InstanceIdentity) -> None:
    with pytest.raises(RegistryError, match="another instance became the leader") as failed:
        Forwarder().forward(paused, HttpRequest("DELETE", "/config", {}), lambda: True)
    assert failed.value.code == 50003


def test_wait_for_the_primary_ends_though_the_process_has_many_descriptors(
    paused: InstanceIdentity,
) -> None:
    with many_descriptors(), pytest.raises(SendAgain, match="another instance became the leader"):
        Forwarder().forward(paused, HttpRequest("PUT", "/config", {}, b"{}"), lambda: True)


def test_request_to_an_address_where_nobody_listens_may_be_sent_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = InstanceIdentity("127.0.0.1", listener.getsockname()[1])
    with pytest.raises(SendAgain):
        Forwarder().forward(nobody, HttpRequest("DELETE", "/config", {}))
