"""The requests that brokers of a cluster on ZooKeeper send to each other.

They change nothing, because they name a broker that does not exist and an old epoch.
"""

from __future__ import annotations

from typing import Final

from kwire.codecs.primitives import Message
from kwire.conformance.access.requests import AnyRequest, BuildRequest, MessageClasses

_NOBODY: Final = 99
_LONG_AGO: Final = 0
"""An epoch older than that of any controller or broker."""


def _leader_and_isr(of: MessageClasses, version: int) -> AnyRequest:
    return of.LeaderAndIsrRequest(
        controller_id=_NOBODY, controller_epoch=_LONG_AGO, broker_epoch=_LONG_AGO
    )


def _stop_replica(of: MessageClasses, version: int) -> AnyRequest:
    return of.StopReplicaRequest(
        controller_id=_NOBODY, controller_epoch=_LONG_AGO, broker_epoch=_LONG_AGO
    )


def _update_metadata(of: MessageClasses, version: int) -> AnyRequest:
    return of.UpdateMetadataRequest(
        controller_id=_NOBODY, controller_epoch=_LONG_AGO, broker_epoch=_LONG_AGO
    )


_REQUESTS: Final[dict[str, BuildRequest]] = {
    "leader_and_isr": _leader_and_isr,
    "stop_replica": _stop_replica,
    "update_metadata": _update_metadata,
    "controlled_shutdown": lambda of, version: of.ControlledShutdownRequest(_NOBODY),
    "alter_partition": lambda of, version: of.AlterPartitionRequest(_NOBODY, _LONG_AGO),
    "allocate_producer_ids": lambda of, version: of.AllocateProducerIdsRequest(_NOBODY, _LONG_AGO),
}
REQUESTED_VERSIONS: Final = {
    "leader_and_isr": range(8),
    "stop_replica": range(5),
    "update_metadata": range(9),
    "controlled_shutdown": range(1, 4),
    "alter_partition": range(2, 4),
    "allocate_producer_ids": range(1),
}


def request_of(name: str, version: int) -> Message:
    message: Message = _REQUESTS[name](MessageClasses(name, b""), version)
    return message
