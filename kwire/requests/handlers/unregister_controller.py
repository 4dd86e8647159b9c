"""UnregisterController (key 94): v0.

Behaviour
- Removes a controller that is gone for good from the metadata (KIP-1312).  A cluster of kwire has
  no controllers but the active one, so nothing is ever removed: INVALID_REQUEST for the active
  controller, CONTROLLER_ID_NOT_REGISTERED for any other.
- UNSUPPORTED_VERSION for any other while `metadata.version` is below 33 (4.4-IV2).
- A broker on ZooKeeper closes the connection, as for an API key that does not exist.
"""

from __future__ import annotations

from kwire.broker.broker import Broker
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.features import CONTROLLER_UNREGISTRATION, METADATA_VERSION
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from kwire.requests.context import Context
from kwire.requests.handlers.quorum.voters import active_controller
from kwire.requests.route import Right, Route
from kwire.requests.routes import require_quorum

ROUTE = Route(
    ApiKey.UNREGISTER_CONTROLLER,
    0,
    0,
    Right(AclOperation.ALTER, ResourceType.CLUSTER),
    about_quorum=True,
    by_controller=True,
)


def handle(
    broker: Broker, request: UnregisterControllerRequest, context: Context
) -> UnregisterControllerResponse:
    """Return why the controller cannot be removed.

    Raises CloseConnection on a broker with ZooKeeper.
    """
    require_quorum(broker, context)
    image, controller_id = broker.image, request.controller_id
    if controller_id == active_controller(broker):
        error = ErrorCode.INVALID_REQUEST
        message = "Controller cannot unregister itself while it is active."
    elif image.features.level(METADATA_VERSION) < CONTROLLER_UNREGISTRATION:
        error = ErrorCode.UNSUPPORTED_VERSION
        message = "The current MetadataVersion is too old to support controller unregistration."
    else:
        error = ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        message = f"Controller ID {controller_id} is not currently registered."
    return UnregisterControllerResponse(error_code=error, error_message=message)


# -- rights


def refuse(
    request: UnregisterControllerRequest, error: ErrorCode, version: int, message: str
) -> UnregisterControllerResponse:
    """Return the response that refuses the request with `error`."""
    return UnregisterControllerResponse(error_code=error, error_message=message)
