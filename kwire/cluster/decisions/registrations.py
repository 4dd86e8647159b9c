"""The removal of a broker's registration by an administrator (UnregisterBroker)."""

from __future__ import annotations

from kwire.cluster.metadata.changes import DropRegistration
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode


def check_registered(image: ClusterImage, broker_id: int) -> None:
    """Raise Refusal unless the broker is registered, live or not."""
    if broker_id not in image.brokers and broker_id not in image.registered:
        raise Refusal(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
        )


def drop_registration(image: ClusterImage, broker_id: int) -> DropRegistration:
    """Return the change that removes a broker.  Raises Refusal if it is not registered."""
    check_registered(image, broker_id)
    return DropRegistration(broker_id)
