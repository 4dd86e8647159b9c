"""Tests that a bad frame closes its connection after earlier requests are answered."""

from __future__ import annotations

import socket

import pytest

from kwire.codecs.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing import BrokerProcess
from tests.inside import PATIENCE_S

NOTHING_ASKED = MetadataRequest(topics=[]).encode(1)
METADATA_V1 = bytes.fromhex("0000000e 0003 0001 00000007 ffff") + NOTHING_ASKED
BAD_FRAMES = {
    "a version that is not served": bytes.fromhex("0000000a 0000 7fff 00000008 ffff"),
    "a key that is not served": bytes.fromhex("0000000a 03e8 0000 00000008 ffff"),
    "a size below zero": bytes.fromhex("ffffffff"),
    "a size beyond socket.request.max.bytes": bytes.fromhex("7fffffff"),
    "a count that lies": bytes.fromhex("0000000e 0003 0001 00000008 ffff 7fffffff"),
    "no room for a header": bytes.fromhex("00000001 00"),
    "a client id that ends behind the frame": bytes.fromhex(
        "0000000c 0012 0000 00000008 0003 6162"
    ),
    "a header without the tags of its version": bytes.fromhex("0000000a 0012 7fff 00000008 ffff"),
}


def all_replies(broker: BrokerProcess, sent: bytes) -> bytes:
    """All bytes that the broker sends until it closes the connection."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", broker.port), PATIENCE_S) as link:
        link.sendall(sent)
        while chunk := link.recv(65536):
            received += chunk
    return bytes(received)


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_requests_before_a_bad_frame_are_answered(name: str, shared_broker: BrokerProcess) -> None:
    """Apache Kafka does the same, since it reads a frame after it has answered the one before."""
    received = all_replies(shared_broker, METADATA_V1 * 2 + BAD_FRAMES[name] + METADATA_V1)
    size = int.from_bytes(received[:4])
    assert len(received) == 2 * (4 + size)
    reply, end = MetadataResponse.read(received[8 : 4 + size], 1, 0)
    assert end == size - 4
    assert len(reply.brokers) == 1
