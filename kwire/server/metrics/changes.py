"""Counts what changes in the cluster, as the metadata of this broker show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.cluster.metadata.image import NO_CONTROLLER, NO_LEADER

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.cluster.metadata.delta import ClusterDelta
    from kwire.cluster.metadata.image import ClusterImage, PartitionImage


class ClusterChanges:
    """The counts since this broker started.

    elections          how often a partition of the cluster got another leader
    unclean_elections  how often that leader was not in sync, while this broker was the controller
    isr_shrinks        how often a replica left the ISR of a partition that is led here
    isr_expands        how often a replica joined one
    new_controllers    how often the cluster got another controller
    """

    def __init__(self, broker: Broker) -> None:
        """Count from now on."""
        self._broker = broker
        self.elections = self.unclean_elections = 0
        self.isr_shrinks = self.isr_expands = 0
        self.new_controllers = 0
        broker.metadata.follow(self._follow)

    def _follow(self, before: ClusterImage, image: ClusterImage, delta: ClusterDelta) -> None:
        if image.controller_id not in (before.controller_id, NO_CONTROLLER):
            self.new_controllers += 1
        for name, indexes in delta.partitions.items():
            old, new = before.topics.get(name), image.topics.get(name)
            if old is None or new is None or old.id != new.id:
                continue
            for index in indexes:
                if index < len(old.partitions):
                    self._partition_changed(old.partitions[index], new.partitions[index])

    def _partition_changed(self, old: PartitionImage, new: PartitionImage) -> None:
        if new.leader not in (old.leader, NO_LEADER):
            self.elections += 1
            if new.leader not in old.isr and self._broker.membership.is_controller:
                self.unclean_elections += 1
        if new.leader == self._broker.node_id:
            self.isr_shrinks += not set(old.isr) <= set(new.isr)
            self.isr_expands += not set(new.isr) <= set(old.isr)
