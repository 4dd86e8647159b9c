"""Fetch from a follower."""

from __future__ import annotations

from kwire.codecs.errors import ErrorCode
from tests.requests.handlers.node import Node
from tests.requests.handlers.test_fetch_waits import BATCH, fetch, told


def test_follower_serves_consumers_since_v11(node: Node) -> None:
    node.create("t")
    node.append("t")
    node.change_leader("t", 0, leader=2, leader_epoch=1)
    node.partition("t").following = True
    refused = (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert told(node.call(fetch((0, 0)), 10)) == [refused]
    assert told(node.call(fetch((0, 0)), 11)) == [(0, ErrorCode.NONE, BATCH)]
