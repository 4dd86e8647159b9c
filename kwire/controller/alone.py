"""The controller of a broker that is alone: a machine for one question, by the image as it is.

Nobody else has to be told what it decides, and nothing of it goes on once it has answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kwire.controller.cluster.effects import Effects
from kwire.controller.cluster.machine import ClusterController
from kwire.controller.host import ControllerHost
from kwire.metadata.changes import Decision
from kwire.metadata.image import ClusterImage


class LoneBroker(ControllerHost, Protocol):
    """See kwire.broker.Broker."""

    image: ClusterImage

    async def commit(self, decisions: Sequence[Decision]) -> None:
        """Raises StoreError."""


async def answer(broker: LoneBroker, question: Callable[[ClusterController], Effects]) -> Any:  # noqa: ANN401 - any reply
    """The machine's reply, once what it decided is committed.  Raises StoreError."""
    effects = question(_machine(broker))
    while effects.decisions or effects.then is not None:
        await broker.commit(effects.decisions)
        if effects.then is None:
            break
        effects = effects.then()
    return effects.reply


def _machine(broker: LoneBroker) -> ClusterController:
    machine = ClusterController(broker, broker.image)
    machine.state.members = {each.id: each.epoch for each in broker.image.brokers.values()}
    for name, topic in broker.image.topics.items():
        for index, known in enumerate(topic.partitions):
            for broker_id in known.offline:
                machine.state.offline.setdefault(broker_id, set()).add((name, index))
            if known.adding or known.removing:
                machine.state.index((name, index), known)
    return machine
