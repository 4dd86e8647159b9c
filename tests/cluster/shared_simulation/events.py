"""What may happen to the holder and its brokers; three numbers make an event.

Some events wait for nothing by chance but bring about a moment in which faults show: a controller
that goes with writes under way, a broker that is restarted before the holder has seen it go, a
holder that is killed in the middle of a write, a broker that joins while others write.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.metadata.changes import (
    AddPartitions,
    AlterPartition,
    Change,
    CreateTopic,
    DeleteTopic,
    MarkForDeletion,
    SetConfigs,
)
from kwire.cluster.metadata.image import ClusterImage, PartitionImage, TopicImage
from tests.cluster.replication.simulation.running import Step
from tests.cluster.shared_simulation.laws import NUMBER, Write
from tests.cluster.shared_simulation.network import Pipe
from tests.cluster.shared_simulation.process import Process
from tests.cluster.shared_simulation.world import BROKERS, World

GROUP_RESOURCE = 32
TOPICS = 3

Event = Callable[[int, int], Awaitable[None] | None]


class Events:
    """Makes of three numbers an event, so that a schedule can be drawn, shrunk and said again."""

    def __init__(self, base: Path, chance: random.Random, clock: MockClock) -> None:
        self.world = World(base, chance, clock)
        self.chance = chance
        self.seen = self.world.seen
        self._events: list[Event] = [
            *[self.net] * 14, *[self.calm] * 8, *[self.write] * 5, *[self.write_as_controller] * 10,
            *[self.decide] * 3, *[self.usurp] * 2, *[self.producer_ids] * 2,
            *[self.join] * 5, *[self.campaign] * 3, self.resign, self.leave, self.kill,
            self.register_again, self.pause, self.unpause, self.slow, self.disk, self.fail_disk,
            *[self.fail_log_dir] * 2, self.kill_holder, *[self.start_holder] * 6, self.stop_holder,
            self.orphan_holder, *[self.restart_quickly] * 3, *[self.depose_with_writes] * 4,
            *[self.kill_holder_in_a_write] * 2, *[self.join_while_others_write] * 2,
            self.kill_holder_in_a_snapshot, *[self.fail_during_an_election] * 2,
            *[self.write_in_an_earlier_epoch] * 3, *[self.contend] * 2,
        ]  # fmt: skip

    async def run(self, schedule: list[Step]) -> None:
        steps = [(self._events[kind % len(self._events)], one, two) for kind, one, two in schedule]
        await self.world.run([(_awaited(event), one, two) for event, one, two in steps])

    def process(self, number: int) -> Process | None:
        """One that has joined."""
        there = self.world.open_processes
        return there[number % len(there)] if there else None

    def controller(self) -> Process | None:
        return next((each for each in self.world.open_processes if each.is_controller), None)

    # -- the network and the disk

    def net(self, one: int, two: int) -> None:
        self.world.network.arrive(one)

    async def calm(self, one: int, two: int) -> None:
        self.world.disk.is_slow = False
        await self.world.calm_down()
        for each in self.world.open_processes:
            if each.is_vacant and not each.is_paused and one % 4:
                each.start(each.campaign)
        await self.world.calm_down()

    def pause(self, one: int, two: int) -> None:
        if (process := self.process(one)) is not None:
            self.world.pause(process, True)

    def unpause(self, one: int, two: int) -> None:
        for each in self.world.open_processes:
            self.world.pause(each, False)

    def slow(self, one: int, two: int) -> None:
        self.world.disk.is_slow = True

    def disk(self, one: int, two: int) -> None:
        self.world.disk.go_on()

    def fail_disk(self, one: int, two: int) -> None:
        if self.world.disk.failures_to_come == 0 and self.world.holder is not None:
            self.world.disk.failures_to_come = 1 + one % 2

    # -- brokers

    def join(self, one: int, two: int) -> None:
        """Mostly a broker that is not there."""
        missing = self._missing()
        if two % 8 == 0:
            missing = [*BROKERS]
        if missing:
            self.world.start_process(missing[one % len(missing)])

    def _missing(self) -> list[int]:
        there = {each.id for each in self.world.open_processes}
        return [each for each in BROKERS if each not in there]

    def kill(self, one: int, two: int) -> None:
        if (process := self.process(one)) is not None:
            self.seen["killed"] += 1
            process.end(lost_bytes=two % 40)

    def leave(self, one: int, two: int) -> None:
        if (process := self.process(one)) is not None:
            process.start(process.leave)

    def campaign(self, one: int, two: int) -> None:
        process = self.process(one)
        if process is not None and process.is_registered:
            process.start(process.campaign)

    def resign(self, one: int, two: int) -> None:
        if (process := self.process(one)) is not None:
            process.start(process.resign)

    def register_again(self, one: int, two: int) -> None:
        process = self.process(one)
        if process is not None and process.is_registered:
            process.start(process.register)

    def fail_log_dir(self, one: int, two: int) -> None:
        if (process := self.process(one)) is not None:
            process.start(process.fail_log_dir)

    def producer_ids(self, one: int, two: int) -> None:
        if (process := self.process(one)) is not None:
            process.start(process.take_producer_ids, 1 + two % 5)

    # -- writes

    def _note(self, writer: Process, epoch: int, changes: Sequence[Change]) -> Write:
        number = len(self.world.laws.writes) + 1
        write = self.world.laws.writes[number] = Write(number, writer, epoch, changes)
        return write

    def _mark(self, image: ClusterImage, one: int) -> SetConfigs:
        """The change that identifies the next write."""
        name = f"g{one % 4}"
        number = {NUMBER: str(len(self.world.laws.writes) + 1)}
        return SetConfigs(GROUP_RESOURCE, name, image.configs_of(GROUP_RESOURCE, name), number)

    def write(self, one: int, two: int) -> None:
        """Write what any broker may write."""
        if (process := self.process(one)) is not None:
            write = self._note(process, -1, [self._mark(process.image, two)])
            process.start(process.write, write)

    def decide(self, one: int, two: int) -> None:
        if (process := self.process(one)) is not None:

            def decide(image: ClusterImage) -> Write:
                return self._note(process, -1, [self._mark(image, two)])

            process.start(process.decide, decide)

    def write_as_controller(self, one: int, two: int) -> None:
        if (controller := self.controller()) is not None:
            self._write_topic(controller, controller.controller_epochs[-1], one, two)

    def usurp(self, one: int, two: int) -> None:
        """A broker writes in the epoch of another broker, the controller."""
        process = self.process(one)
        if process is not None and not process.is_controller:
            self.seen["usurped"] += 1
            self._write_topic(process, process.image.controller_epoch, one, two)

    def _write_topic(self, process: Process, epoch: int, one: int, two: int) -> None:
        changes = [self._topic_change(process.image, process.id, epoch, one, two)]
        changes.insert(two % 2, self._mark(process.image, one))
        if one % 5 == 0:
            last = process.image.configs_of(GROUP_RESOURCE, "last")
            changes.append(SetConfigs(GROUP_RESOURCE, "last", last, {"x": str(two)}))
        process.start(process.write, self._note(process, epoch, changes))

    def _topic_change(
        self, image: ClusterImage, writer: int, epoch: int, one: int, two: int
    ) -> Change:
        name = f"t{one % TOPICS}"
        state = PartitionImage(writer, two, 0, (1, 2), (1, 2), controller_epoch=max(epoch, 0))
        topic = image.topics.get(name)
        if topic is None:
            number = len(self.world.laws.writes) + 1
            return CreateTopic(TopicImage(name, number.to_bytes(16), (state,)), {"x": "1"})
        kind = two % 8
        if kind == 0:
            return MarkForDeletion(name, topic.id)
        if kind == 1 or name in image.deleting:
            return DeleteTopic(name, topic.id)
        if kind in (2, 3):
            return AddPartitions(name, topic.id, len(topic.partitions), (state, state))
        index = one % len(topic.partitions)
        known = topic.partitions[index].partition_epoch
        changed = replace(state, partition_epoch=known + 1)
        return AlterPartition(name, topic.id, index, known, changed)

    # -- the holder

    async def kill_holder(self, one: int, two: int) -> None:
        """Kill the holder at any point; a power cut loses what was not fsynced."""
        world = self.world
        if world.holder is not None:
            cut_power = one % 3 == 0
            self.seen["lost its power" if cut_power else "holder killed"] += 1
            content, may_hold = world.disk.cut_power() if cut_power else world.disk.kill()
            await world.end_holder(content, may_hold)

    async def start_holder(self, one: int, two: int) -> None:
        await self.world.start_holder()

    async def stop_holder(self, one: int, two: int) -> None:
        if self.world.holder is not None:
            self.seen["holder stopped"] += 1
            await self.world.stop_holder()

    def orphan_holder(self, one: int, two: int) -> None:
        """The parent dies, and some brokers leave; the holder ends after the last one."""
        holder = self.world.holder
        if holder is not None and self.world.open_processes:
            self.seen["holder orphaned"] += 1
            holder.orphaned.set()
            for each in self.world.open_processes[: one % 4]:
                each.start(each.leave)

    # -- moments

    async def restart_quickly(self, one: int, two: int) -> None:
        """A broker is killed and restarts before the holder has noticed, or removed it."""
        if (process := self.process(one)) is None:
            return
        await self.world.calm_down()
        connection = process.connection
        assert connection is not None
        self.world.disk.is_slow = two % 4 > 0
        if two % 2:
            process.start(process.write, self._note(process, -1, [self._mark(process.image, two)]))
            self.write_as_controller(one, two)
            await wait_all_tasks_blocked()
            self._arrive(connection.up)
            await self._some_moments()
        self.seen["restarted quickly"] += 1
        process.end()
        if two % 3:
            self._arrive(connection.up)
            await self._some_moments()
        for _ in range(1 + two % 2):
            later = self.world.start_process(process.id)
            await wait_all_tasks_blocked()
            if later.connection is not None:
                self._arrive(later.connection.down)
                await wait_all_tasks_blocked()
                self._arrive(later.connection.up)
                await wait_all_tasks_blocked()

    @staticmethod
    def _arrive(pipe: Pipe) -> None:
        while pipe.is_moving:
            pipe.arrive(1 << 20)

    async def depose_with_writes(self, one: int, two: int) -> None:
        """The controller leaves during a write; another is elected, the old one writes on."""
        controller = self.controller()
        if controller is None or controller.connection is None:
            return
        await self.world.calm_down()
        self.world.disk.is_slow = bool(two % 3)
        self.write_as_controller(one, two)
        await wait_all_tasks_blocked()
        self._arrive(controller.connection.up)
        await wait_all_tasks_blocked()
        self.seen["deposed"] += 1
        if one % 2:
            controller.end()
        else:
            controller.start(controller.resign)
            self.write_as_controller(one + 1, two)
        await wait_all_tasks_blocked()
        self._arrive(controller.connection.up)
        for each in self.world.open_processes:
            if each is not controller and each.is_registered:
                each.start(each.campaign)
                await self._some_moments()
                if each.connection is not None:
                    self._arrive(each.connection.up)
        self.write_as_controller(one + 2, two)

    async def kill_holder_in_a_write(self, one: int, two: int) -> None:
        if self.world.holder is None or not self.world.open_processes:
            return
        await self.world.calm_down()
        self.world.disk.is_slow = True
        for number in range(1 + two % 3):
            self.write(one + number, two + number)
            self.write_as_controller(one + number, two)
        await wait_all_tasks_blocked()
        self.world.network.arrive_all()
        await wait_all_tasks_blocked()
        self.world.network.arrive_all()
        await wait_all_tasks_blocked()
        self.seen["killed in a write"] += bool(self.world.disk.waiting)
        if two % 4 == 0:
            await self.stop_holder(one, two)
        else:
            await self.kill_holder(one, two)
        await self.world.start_holder()

    async def join_while_others_write(self, one: int, two: int) -> None:
        """A broker joins; commits of others arrive in the middle of its snapshot."""
        missing = self._missing()
        if not missing:
            return
        for number in range(1 + two % 3):
            self.write(one + number, two + number)
            self.write_as_controller(one, two + number)
        await wait_all_tasks_blocked()
        process = self.world.start_process(missing[0])
        for each in self.world.open_processes:
            await self._some_moments()
            if each.connection is not None:
                self._arrive(each.connection.up)
        await wait_all_tasks_blocked()
        if process.connection is None:
            return
        process.connection.down.arrive(one)
        self.write(one, two)
        for _ in range(4):
            await wait_all_tasks_blocked()
            for each in self.world.open_processes:
                if each.connection is not None:
                    self._arrive(each.connection.up)

    async def _some_moments(self) -> None:
        """Let the other tasks run a few steps, so that the next event may come between any two."""
        for _ in range(self.chance.randrange(9)):
            await trio.lowlevel.checkpoint()

    async def fail_during_an_election(self, one: int, two: int) -> None:
        """The disk refuses a write while the controller, or another broker, leaves or joins."""
        if (process := self.process(one)) is None:
            return
        await self.world.calm_down()
        self.world.disk.is_slow = True
        self.write(one + 1, two)
        await wait_all_tasks_blocked()
        self.world.network.arrive_all()
        await wait_all_tasks_blocked()
        self.write(one + 2, two)
        controller = self.controller() or process
        if two % 3:
            controller.end()
        elif controller.is_controller:
            controller.start(controller.resign)
        elif controller.is_registered:
            controller.start(controller.campaign)
        self.join(one, two)
        await wait_all_tasks_blocked()
        self.world.network.arrive_all()
        await wait_all_tasks_blocked()
        self.world.disk.failures_to_come = 1 + two % 2
        self.seen["disk failed"] += 1

    async def write_in_an_earlier_epoch(self, one: int, two: int) -> None:
        """The controller resigns and is elected again; then a task of its earlier term writes."""
        await self.world.calm_down()
        controller = self.controller()
        if controller is None or controller.is_paused:
            return
        epoch = controller.controller_epochs[-1]
        for work in (controller.resign, controller.campaign):
            controller.start(work)
            await self.world.calm_down()
        if controller.is_controller and controller.controller_epochs[-1] > epoch:
            self.seen["wrote in an earlier epoch"] += 1
            self._write_topic(controller, epoch, one, two)
            self._write_topic(controller, controller.controller_epochs[-1], one + 1, two)

    async def kill_holder_in_a_snapshot(self, one: int, two: int) -> None:
        """A broker that has got part of the snapshot, or none, must not join."""
        process = self.process(one)
        if process is not None and not self._missing():
            process.end()
        await self.world.calm_down()
        missing = self._missing()
        if self.world.holder is None or not missing:
            return
        process = self.world.start_process(missing[0])
        await wait_all_tasks_blocked()
        if process.connection is not None and two % 3:
            process.connection.down.arrive(two % 60)
        self.seen["killed in a snapshot"] += 1
        await self.kill_holder(one, two)

    async def contend(self, one: int, two: int) -> None:
        """All brokers set the same config at once, and reserve producer ids."""
        await self.world.calm_down()
        self.world.disk.is_slow = two % 2 == 0
        for each in self.world.open_processes:
            changes = [self._mark(each.image, one)]
            each.start(each.write, self._note(each, -1, changes))
            each.start(each.take_producer_ids, 2)
        await wait_all_tasks_blocked()
        self.world.network.arrive_all()


def _awaited(event: Event) -> Callable[[int, int], Awaitable[None]]:
    async def happen(one: int, two: int) -> None:
        result = event(one, two)
        if result is not None:
            await result

    happen.__name__ = event.__name__
    return happen


async def simulate(schedule: list[Step], base: Path, seed: int, clock: MockClock) -> Counter[str]:
    """Run a schedule; returns counts of the situations that occurred."""
    events = Events(base, random.Random(seed), clock)
    with (
        patch("trio.open_unix_socket", events.world.connect),
        patch("trio.to_thread.run_sync", events.world.disk.run_sync),
    ):
        await events.run(schedule)
    return events.seen
