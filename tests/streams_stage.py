"""Where requests about streams groups are sent to a broker, with names that no other test has."""

from __future__ import annotations

import time

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.conformance.wire.peer import ClientConnection
from kwire.conformance.wire.stage import Stage

WAIT_S = 120.0


def stage_on(bootstrap: str, prefix: str) -> Stage:
    """Once groups are served there; `finish` it."""
    broker = RemoteBroker(address_of(bootstrap))
    broker.read_versions_and_ids()
    peer = ClientConnection(broker.address)
    broker.wait_for_coordinators(peer, "streams")
    peer.close()
    now_ms = int(time.time() * 1000)
    return Stage(broker, ApiKey.STREAMS_GROUP_HEARTBEAT, 0, prefix, now_ms, WAIT_S)
