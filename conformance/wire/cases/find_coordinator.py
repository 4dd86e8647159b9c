"""Cases of FindCoordinator: groups, transactions, and unknown key types."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.find_coordinator import FindCoordinatorRequest
from kwire.conformance.access.requests import GROUP
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.FIND_COORDINATOR)


def access_request(version: int, topic_id: bytes) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(GROUP)
    return FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])


def ask(stage: Stage, *keys: str, key_type: int = 0) -> FindCoordinatorRequest:
    """Request one key, or all keys where the version takes several."""
    if stage.version < 4:
        return FindCoordinatorRequest(key=keys[0] if keys else "", key_type=key_type)
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))


case.requests(
    {
        "a group": lambda stage: ask(stage, stage.name("g")),
        "the empty group": lambda stage: ask(stage, ""),
    }
)
case.requests(
    {
        "a transaction": lambda stage: ask(stage, stage.name("t"), key_type=1),
        "a share group's partition": lambda stage: ask(stage, stage.name("s"), key_type=2),
        "a key type that does not exist": lambda stage: ask(stage, "x", key_type=9),
        "a negative key type": lambda stage: ask(stage, "x", key_type=-1),
    },
    since=1,
)
case.requests(
    {
        "no keys": lambda stage: ask(stage),
        "many keys": lambda stage: ask(stage, *[stage.name(f"g{i}") for i in range(5)]),
        "the same key twice": lambda stage: ask(stage, "g", "g", ""),
    },
    since=4,
)
