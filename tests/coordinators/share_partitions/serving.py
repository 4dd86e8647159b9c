"""A running broker, and members of share groups that send it encoded requests."""

from __future__ import annotations

import itertools
import time

from kwire.codecs.api_keys import ApiKey
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.conformance.wire.peer import ClientConnection
from kwire.conformance.wire.stage import Stage

WAIT_S = 120.0
_numbers = itertools.count()


def stage_on(bootstrap: str, version: int = 2) -> Stage:
    """Where requests are sent to this broker, with names that no other test has."""
    broker = RemoteBroker(address_of(bootstrap))
    broker.read_versions_and_ids()
    peer = ClientConnection(broker.address)
    broker.wait_for_coordinators(peer, "share")
    peer.close()
    return _stage(broker, version)


def unready_stage_on(bootstrap: str) -> Stage:
    """The same, before anybody has asked the broker for a coordinator."""
    broker = RemoteBroker(address_of(bootstrap))
    broker.read_versions_and_ids()
    return _stage(broker, 2)


def _stage(broker: RemoteBroker, version: int) -> Stage:
    now_ms = int(time.time() * 1000)
    prefix = f"sharing{next(_numbers)}-t"
    return Stage(broker, ApiKey.SHARE_FETCH, version, prefix, now_ms, WAIT_S)
