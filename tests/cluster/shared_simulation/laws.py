"""What must always hold where brokers share the metadata of one process.

each published image follows the one before by one version and by one change that somebody asked for
a write that was refused, by a conflict or a fence, is in no image; none is made twice
a change that only the controller may make is made in its epoch, by its registered connection
a controller epoch is larger than all before it, and one broker's; controllers do not overlap
a broker is registered once its predecessor is gone, never before, in a larger epoch
a broker is unregistered only when its connection has ended
every member sees the images one by one, as they were published; in the end it has the last one
what was acknowledged has been published, and its writer has seen it; after a restart it is there
producer ids are given once
a controller that goes, and a log directory that fails, are told to every member
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kwire.cluster.metadata.changes import ANY_BROKER_CHANGES, Change, Conflict, apply_all
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import NO_CONTROLLER, BrokerImage, ClusterImage

if TYPE_CHECKING:
    from tests.cluster.shared_simulation.process import Process

NUMBER = "n"
"""The config that identifies a write in an image: each write sets another value."""


@dataclass
class Write:
    """Changes that a broker commits; `epoch` is the controller epoch that it names."""

    number: int
    writer: Process
    epoch: int
    changes: Sequence[Change]
    version: int = -1
    """Version of the image that has the changes, once it is published."""
    is_refused: bool = False

    @property
    def is_controllers(self) -> bool:
        return any(not isinstance(each, ANY_BROKER_CHANGES) for each in self.changes)


def lasting(image: ClusterImage) -> ClusterImage:
    """The part of the image that survives the holder."""
    return replace(image, brokers={}, controller_id=NO_CONTROLLER, controller_epoch=0, version=0)


class Laws:
    """Checks the laws on each request and each published image, and at each pause."""

    def __init__(self) -> None:
        self.writes: dict[int, Write] = {}
        self.processes: list[Process] = []
        self.image = ClusterImage("")
        """The image published last."""
        self.images: dict[int, ClusterImage] = {}
        """Images that this holder has published."""
        self.is_muted = False
        """Whether the holder was killed: what its tasks still do is ignored."""
        self._broker_epoch = -1
        self._durable_version = 0
        """Version of the last published image with a new durable change."""
        self._producer_ids: list[range] = []
        self._registered: dict[int, Process] = {}

    # -- the holder

    def begin(self, image: ClusterImage, among: Sequence[ClusterImage]) -> None:
        """A holder starts with `image`, which must be one of `among` (empty: any)."""
        assert not among or any(lasting(image) == lasting(each) for each in among), (
            "what was acknowledged is not there after a restart, or what never was is",
            image,
            among,
        )
        assert image.version >= self._durable_version, "versions go back after a restart"
        assert not image.brokers
        assert image.controller_id == NO_CONTROLLER
        self.image = image
        self.images = {image.version: image}
        self.is_muted = False
        self._broker_epoch = -1
        self._registered.clear()
        for write in self.writes.values():
            if write.version < 0 and self._number_of(write) in self._numbers(image):
                write.version = image.version  # it was written when the last holder was killed

    def publish(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """The holder's store publishes `image`."""
        if self.is_muted:
            return
        before, self.image = self.image, image
        self.images[image.version] = image
        assert image.version == before.version + 1
        assert delta.applied_to(before) == image, "a delta leads to its image"
        if lasting(image) != lasting(before):
            self._durable_version = image.version
        after = image.with_version(before.version)
        if after.brokers != before.brokers:
            self._check_members(before, after)
        elif (after.controller_id, after.controller_epoch) != (
            before.controller_id,
            before.controller_epoch,
        ):
            self._check_controller(before, after)
        elif after.registered != before.registered:
            self._check_kept(before, after, delta)
        elif after.next_producer_id != before.next_producer_id:
            assert after.next_producer_id > before.next_producer_id
            assert after == before.with_next_producer_id(after.next_producer_id)
        else:
            self._check_write(before, after, delta)

    def _check_members(self, before: ClusterImage, after: ClusterImage) -> None:
        (broker_id,) = {
            each
            for each in {**before.brokers, **after.brokers}
            if before.brokers.get(each) != after.brokers.get(each)
        }
        broker, process = after.brokers.get(broker_id), self._registered.get(broker_id)
        if broker is None:
            assert process is not None
            assert process.is_forgotten, f"{process} is unregistered although it is connected"
            del self._registered[broker_id]
            assert after == before.without_broker(broker_id)
            assert after.controller_id != broker_id, (
                "the controller resigns before its broker leaves"
            )
            return
        self._check_registration(broker, process)
        assert after == before.with_broker(broker)

    def _check_registration(self, broker: BrokerImage, earlier: Process | None) -> None:
        (process,) = (each for each in self.processes if each.port == broker.endpoints[0].port)
        assert process.has_asked_to_register
        assert earlier in (None, process), f"{process} is let in before {earlier} is gone"
        for each in self.processes:
            if each.id == broker.id and each is not process and each.was_registered:
                assert each.is_forgotten, f"{process} is let in before {each} is gone"
        assert broker.epoch > self._broker_epoch
        assert replace(broker, epoch=-1) == process.registration
        self._broker_epoch = broker.epoch
        self._registered[broker.id] = process
        process.was_registered = True

    def _check_kept(self, before: ClusterImage, after: ClusterImage, delta: ClusterDelta) -> None:
        ((broker_id, kept),) = delta.registered.items()
        assert kept in [each.registration for each in self.processes if each.was_registered]
        assert after == before.with_registration(broker_id, kept)

    def _check_controller(self, before: ClusterImage, after: ClusterImage) -> None:
        epoch = after.controller_epoch
        assert after == before.with_controller(after.controller_id, epoch)
        if after.controller_id == NO_CONTROLLER:
            process = self._registered[before.controller_id]
            goes = process.is_forgotten or process.resigns_or_leaves
            assert goes, f"{process} stops being the controller"
            assert epoch == before.controller_epoch
            return
        assert before.controller_id == NO_CONTROLLER, "there is a controller already"
        process = self._registered[after.controller_id]
        assert process.campaigns, f"{process} did not ask to be the controller"
        epochs = [
            each.controller_epoch for topic in before.topics.values() for each in topic.partitions
        ]
        assert epoch > max([before.controller_epoch, *epochs])

    def _check_write(self, before: ClusterImage, after: ClusterImage, delta: ClusterDelta) -> None:
        numbers = {configs[NUMBER] for configs in delta.configs.values() if NUMBER in configs}
        assert len(numbers) == 1, ("one commit is published at a time", delta)
        write = self.writes[int(numbers.pop())]
        assert not write.is_refused, write
        assert write.version < 0, ("it is made twice", write)
        write.version = self.image.version
        assert apply_all(before, write.changes) == after, write
        if write.is_controllers:
            assert before.controller_id == write.writer.id, ("another is the controller", write)
            assert before.controller_epoch == write.epoch, ("its term is over", write)
            assert self._registered[write.writer.id] is write.writer, write

    @staticmethod
    def _number_of(write: Write) -> str:
        return str(write.number)

    @staticmethod
    def _numbers(image: ClusterImage) -> set[str]:
        return {configs.get(NUMBER, "") for configs in image.configs.values()}

    # -- the answers

    def acknowledged(self, write: Write, image: ClusterImage) -> None:
        assert write.version >= 0, ("it is acknowledged and not made", write)
        assert image.version >= write.version, ("its writer has not seen it", write)

    def conflicts(self, write: Write, conflict: Conflict, image: ClusterImage | None) -> None:
        """`image` is what the writer sees; None if the conflicting write may have failed since."""
        self._refused(write)
        assert conflict.made == 0
        if image is None:
            return
        try:
            apply_all(image, write.changes)
        except Conflict:
            return
        raise AssertionError(("its writer does not see what is in the way", write, image))

    def fenced(self, write: Write) -> None:
        self._refused(write)
        assert write.is_controllers, ("any broker may make it", write)
        is_controller = (self.image.controller_id, self.image.controller_epoch) == (
            write.writer.id,
            write.epoch,
        )
        is_controller &= self._registered.get(write.writer.id) is write.writer
        assert not is_controller or write.writer.resigns_or_leaves, (
            "it is the controller",
            write,
        )

    def _refused(self, write: Write) -> None:
        assert write.version < 0, ("it is refused and made", write)
        write.is_refused = True

    def took_producer_ids(self, ids: range) -> None:
        assert ids
        assert self.image.next_producer_id >= ids.stop, ids
        for each in self._producer_ids:
            assert ids.stop <= each.start or each.stop <= ids.start, (ids, each)
        self._producer_ids.append(ids)

    # -- at rest

    def check_calm(self, open_processes: Sequence[Process]) -> None:
        """Check the laws when all messages have arrived and the disk is idle."""
        connected = [each for each in open_processes if not each.is_forgotten]
        members = {each.id: each for each in connected if each.was_registered}
        assert self.image.brokers.keys() == members.keys(), "who is connected is a member"
        assert self.image.controller_id in (NO_CONTROLLER, *members)
        for process in connected:
            if process.is_paused:
                continue
            assert process.image == self.image, f"{process} has not seen all"
            assert not process.pending, f"{process} waits for answers: {process.pending}"
            assert process.controllers_gone >= process.controllers_seen_gone, process
            for broker_id, count in process.failures_due.items():
                assert process.failures_told[broker_id] >= count, (process, broker_id)


def state(processes: Sequence[Process]) -> Mapping[str, object]:
    return {str(each): each.image.version for each in processes}
