"""Cases of UnregisterController: the active controller, and ids of nobody."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.unregister_controller import UnregisterControllerRequest
from kwire.conformance.wire.case import Cases

case = Cases(ApiKey.UNREGISTER_CONTROLLER)

ACTIVE = 1
"""The id of the controller of both brokers whose rights are compared."""
NOBODY = 2_000_000_000
"""The id of no controller."""


def access_request(version: int, topic_id: bytes) -> UnregisterControllerRequest:
    """Name the controller itself: the answer for others depends on metadata.version."""
    return UnregisterControllerRequest(ACTIVE)


case.requests(
    {
        "the active controller": lambda stage: UnregisterControllerRequest(stage.broker.node_id),
        "a controller that does not exist": lambda stage: UnregisterControllerRequest(NOBODY),
        "a negative id": lambda stage: UnregisterControllerRequest(-1),
    }
)
