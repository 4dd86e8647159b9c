"""The holder of the metadata and its brokers in one process; laws.py says what must hold.

Connections (network.py) and the disk (disk.py) do what the schedule says: events.py.  In the end
all goes well: whoever is there is a member, one of them is the controller and writes, all see it;
then the holder ends, after its last broker.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from kwire.cluster.metadata.image import NO_CONTROLLER, ClusterImage
from kwire.cluster.stores.local import LocalStore
from kwire.cluster.stores.shared.holder import LEAVE_TIMEOUT_S, share
from tests.cluster.shared_simulation.disk import Disk
from tests.cluster.shared_simulation.laws import Laws
from tests.cluster.shared_simulation.network import Network
from tests.cluster.shared_simulation.process import Process

BROKERS = (1, 2, 3)
ROUNDS_MAX = 400
"""Rounds within which all messages must have arrived."""


class HolderProcess:
    """As `kwire.cluster.stores.shared.holder.hold` has it, over a disk and a network of the
    world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.local = LocalStore(world.path, files=world.disk)
        self.local.watch(world.laws.publish)
        self.stop_signal = trio.Event()
        self.orphaned = trio.Event()
        self.ended = trio.Event()
        self.is_stopping = False
        """Whether it got SIGTERM and removes its members by itself."""
        self._scope = trio.CancelScope()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        world = self._world
        listener = world.network.listener()
        with self._scope:
            await share(
                self.local,
                listener,
                task_status.started,
                self.stop_signal.wait,
                self.orphaned.wait,
            )
        self.is_stopping = True
        self.local.close()
        if not world.laws.is_muted:
            world.may_hold = [world.laws.image]
        world.network.close()
        world.holder = None
        self.ended.set()

    def kill(self) -> None:
        self.is_stopping = True
        self._world.laws.is_muted = True
        self._world.network.close()
        self._scope.cancel()


class World:
    """The simulated holder, brokers, disk and network."""

    def __init__(self, base: Path, chance: random.Random, clock: MockClock) -> None:
        self.path = base / "metadata.log"
        self.chance = chance
        self.clock = clock
        self.disk = Disk(self.path, chance)
        self.network = Network(chance)
        self.laws = Laws()
        self.seen: Counter[str] = Counter()
        self.holder: HolderProcess | None = None
        self.may_hold: list[ClusterImage] = []
        """Images with which the next holder may start; an empty list allows any."""
        self.is_over = False
        self.step = "at the start"
        self._processes = 0

    @property
    def open_processes(self) -> list[Process]:
        return [each for each in self.laws.processes if each.is_open]

    # -- driving

    async def run(
        self, steps: Sequence[tuple[Callable[[int, int], Awaitable[None]], int, int]]
    ) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await self.begin()
                for number, (event, one, two) in enumerate(steps):
                    self.step = f"step {number}: {event.__name__}({one}, {two})"
                    await event(one, two)
                    await self.rest()
                self.step = "in the end"
                await self.settle()
            except BaseException as problem:
                problem.add_note(self.step)
                raise
            finally:
                self.is_over = self.laws.is_muted = True
                self.disk.is_slow = False
                self.disk.go_on()
                nursery.cancel_scope.cancel()

    async def begin(self) -> None:
        """Start the holder and brokers; in most runs all join and one is the controller."""
        await self.start_holder()
        for broker_id in self.chance.choice([BROKERS, BROKERS, BROKERS[:2], ()]):
            self.start_process(broker_id)
        await self.calm_down()
        for each in self.open_processes:
            each.start(each.campaign)
        await self.calm_down()

    async def rest(self) -> None:
        """Run all tasks until they wait; end brokers whose holder has ended."""
        await wait_all_tasks_blocked()
        for each in self.laws.processes:
            if each.was_told_lost and not each.is_over:
                self.seen["lost its session"] += 1
                self._nursery.start_soon(each.ask_in_vain)
        await wait_all_tasks_blocked()
        for each in self.laws.processes:
            assert each.is_over or not each.was_told_lost, f"{each} waits for who is gone"

    async def calm_down(self) -> None:
        """Deliver all messages and finish all writes, until no request waits."""
        await self.rest()
        for _ in range(ROUNDS_MAX):
            wrote, moved = self.disk.go_on(), self.network.arrive_all()
            await self.rest()
            if not wrote and not moved:
                break
        else:
            raise AssertionError("it never comes to rest")
        if self.holder is not None:
            self.laws.check_calm(self.open_processes)

    # -- the holder

    async def start_holder(self) -> None:
        if self.holder is None:
            self.disk.restart(self.path.read_bytes() if self.path.exists() else None)
            self.holder = HolderProcess(self)
            self.laws.begin(await self.holder.local.load(), self.may_hold)
            await self._nursery.start(self.holder.run)

    async def end_holder(self, content: bytes, may_hold: Sequence[ClusterImage]) -> None:
        """End the holder by a kill or a power cut, which leaves `content` in its file."""
        holder = self.holder
        assert holder is not None
        self.may_hold = [self.laws.image, *may_hold]
        holder.kill()
        await wait_all_tasks_blocked()
        assert holder.ended.is_set()
        self.disk.restart(content)
        await self.rest()

    async def stop_holder(self) -> None:
        """Stop the holder by SIGTERM: it finishes its writes and removes its members."""
        holder = self.holder
        assert holder is not None
        holder.is_stopping = True
        holder.stop_signal.set()
        await self._await_end(holder)

    async def _await_end(self, holder: HolderProcess) -> None:
        for _ in range(ROUNDS_MAX):
            await self.rest()
            if holder.ended.is_set():
                assert not self.laws.image.brokers, "it lets all go before it ends"
                return
            self.disk.go_on()
        raise AssertionError("the holder does not end")

    # -- brokers

    def start_process(self, broker_id: int) -> Process:
        self._processes += 1
        process = Process(self, broker_id, self._processes)
        self.laws.processes.append(process)
        self._nursery.start_soon(process.run)
        return process

    async def connect(self, path: str) -> object:
        """Replaces trio.open_unix_socket; `path` is the number of the process."""
        process = self.laws.processes[int(path) - 1]
        end = await self.network.connect(path)
        process.connected(self.network.of(end))
        return end

    def pause(self, process: Process, is_paused: bool) -> None:
        process.is_paused = is_paused
        if process.connection is not None:
            process.connection.is_held = is_paused

    # -- the end

    async def settle(self) -> None:
        self.disk.is_slow = False
        self.disk.failures_to_come = 0
        for each in self.laws.processes:
            self.pause(each, False)
        await self.calm_down()
        if self.holder is None or self.holder.orphaned.is_set():
            for each in self.open_processes:
                each.end()
            await self.calm_down()
            assert self.holder is None, "it ends once its last broker is gone"
            await self.start_holder()
        await self._be_a_cluster()
        await self._end()

    async def _be_a_cluster(self) -> None:
        for broker_id in BROKERS:
            there = [each for each in self.open_processes if each.id == broker_id]
            for each in there:
                if not each.is_registered:
                    each.end()
            if not any(each.is_registered for each in there):
                await self.calm_down()
                self.start_process(broker_id)
        await self.calm_down()
        members = self.open_processes
        assert [each.is_registered for each in members] == [True] * len(BROKERS)
        for each in members:
            if each.is_vacant:
                each.start(each.campaign)
        await self.calm_down()
        assert self.laws.image.controller_id != NO_CONTROLLER, "nobody is told to campaign"
        assert sum(each.is_controller for each in members) == 1
        self.seen["settled"] += 1

    async def _end(self) -> None:
        """End the parent, then each broker, then the holder."""
        holder = self.holder
        assert holder is not None
        holder.orphaned.set()
        members = self.open_processes
        stays = self.chance.random() < 0.3
        for each in members[: len(members) - stays]:
            await self.calm_down()
            assert not holder.ended.is_set(), "it ends before its last broker"
            each.start(each.leave)
        await self.calm_down()
        if stays:
            self.clock.jump(LEAVE_TIMEOUT_S - 1)
            await self.calm_down()
            assert not holder.ended.is_set(), "it ends before its last broker"
            self.clock.jump(1)
            holder.is_stopping = True
            await self.rest()
        await self.calm_down()
        assert holder.ended.is_set(), "it ends once its last broker is gone"
        assert not self.laws.image.brokers
        found = LocalStore(self.path)
        self.laws.begin(await found.load(), [self.laws.image])
        found.close()
