"""Process: a simulated broker process, with its SharedStore and the requests it makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from kwire.cluster.metadata.change_records import encode
from kwire.cluster.metadata.changes import Change, Conflict, Decision
from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import NO_CONTROLLER, BrokerImage, ClusterImage, Endpoint
from kwire.cluster.stores.contract import (
    BrokerEnded,
    ControllerGone,
    Fenced,
    LogDirsFailed,
    SessionLost,
    StoreError,
    StoreEvent,
)
from kwire.cluster.stores.deciding import commit_decided
from kwire.cluster.stores.shared.store import SharedStore
from tests.cluster.shared_simulation.laws import Write
from tests.cluster.shared_simulation.network import Connection

if TYPE_CHECKING:
    from tests.cluster.shared_simulation.world import World

Result = TypeVar("Result")


class Process:
    """One process of a broker; a restart makes another one, which may overlap with this one."""

    def __init__(self, world: World, broker_id: int, number: int) -> None:
        self.world = world
        self.id = broker_id
        self.number = number
        self.port = 10_000 + number
        endpoint = Endpoint("PLAINTEXT", "localhost", self.port)
        features = {"metadata.version": (1, 1 + number)}
        self.registration = BrokerImage(broker_id, (endpoint,), f"rack{number}", features=features)
        self.store: SharedStore | None = None
        self.connection: Connection | None = None
        self.image = ClusterImage("")
        """The image that its store published last."""
        self._images: Mapping[int, ClusterImage] = {}
        """Images that its holder has published, by version."""
        self.scope = trio.CancelScope()
        self.is_over = False
        self.is_paused = False
        self.was_told_lost = False
        self.is_vacant = False
        """Whether it got ControllerGone and has not campaigned since."""
        self.controller_epochs: list[int] = []
        """Controller epochs in which its image named it the controller."""
        self.pending: Counter[str] = Counter()
        """The requests that it waits for."""
        self.controllers_seen_gone = self.controllers_gone = 0
        self.failures_due: Counter[int] = Counter()
        self.failures_told: Counter[int] = Counter()
        self.has_asked_to_register = self.was_registered = self.is_registered = False
        self.campaigns = False
        self._resigns = 0

    def __str__(self) -> str:
        return f"process {self.number} of broker {self.id}"

    @property
    def is_open(self) -> bool:
        """Whether it has joined and not ended."""
        return self.store is not None and not self.is_over and not self.was_told_lost

    @property
    def is_forgotten(self) -> bool:
        """Whether the holder has removed it, or has ended."""
        connection = self.connection
        assert connection is not None
        gone = connection.up.end_arrived or connection.holder.is_closed
        return gone or self.world.holder is None or self.world.holder.is_stopping

    @property
    def resigns_or_leaves(self) -> bool:
        """Whether it has resigned, or may have."""
        return self.is_over or self.pending["resign"] > 0

    @property
    def is_controller(self) -> bool:
        """Whether it takes itself for the controller.

        A second process of the same broker, which the holder refuses, does not: it sees an image
        whose controller has its id, but a broker that is not registered never campaigns.
        """
        is_named = self.image.controller_id == self.id and bool(self.controller_epochs)
        return is_named and self.is_registered

    # -- its life

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            with self.scope:
                await self._live(nursery)
            nursery.cancel_scope.cancel()
        self.end()

    def connected(self, connection: Connection) -> None:
        self.connection = connection
        connection.is_held = self.is_paused
        self._images = self.world.laws.images

    async def _live(self, nursery: trio.Nursery) -> None:
        try:
            store = await SharedStore.connect(Path(str(self.number)), nursery)
        except StoreError:
            if self.connection is not None:
                assert self.connection.holder.is_closed, "the holder is there"
            self.is_over = True
            return
        self.image = await store.load()
        self._check_image(self.image)
        store.watch(self._changed)
        store.on_event = self._heard
        self.store = store
        self.start(self.register)
        await trio.sleep_forever()

    def end(self, lost_bytes: int = 0) -> None:
        """End it: it was killed, or has left."""
        self.is_over = True
        if self.connection is not None:
            self.connection.broker.close(lost_bytes)
            self.connection.is_held = False
        if self.store is not None:
            self.store.close()
        self.scope.cancel()

    def start(self, work: Callable[..., Awaitable[None]], *arguments: Any) -> None:  # noqa: ANN401 - its own
        if self.is_open:
            self._nursery.start_soon(work, *arguments)

    # -- what it is told

    def _check_image(self, image: ClusterImage) -> None:
        if self._images.get(image.version) != image:
            raise AssertionError(f"{self} sees what was not published: {image}")

    def _changed(self, image: ClusterImage, delta: ClusterDelta) -> None:
        assert self.is_open, f"{self} has ended and is told more"
        before, self.image = self.image, image
        assert image.version == before.version + 1, f"{self} misses an image"
        assert delta.applied_to(before) == image
        self._check_image(image)
        if before.controller_id != NO_CONTROLLER and image.controller_id == NO_CONTROLLER:
            self.controllers_seen_gone += 1
        if image.controller_id == self.id and image.controller_id != before.controller_id:
            self.controller_epochs.append(image.controller_epoch)

    def _heard(self, event: StoreEvent) -> None:
        if self.world.is_over:
            return
        assert self.is_open, f"{self} has ended and is told more"
        match event:
            case BrokerEnded(broker_id):
                assert broker_id != self.id or not self.is_registered, f"{self} has not ended"
            case ControllerGone():
                self.controllers_gone += 1
                assert self.controllers_gone <= self.controllers_seen_gone + 1, "told too early"
                self.is_vacant = self.is_registered
            case SessionLost():
                assert not self.was_told_lost
                assert self.connection is not None
                assert self.connection.holder.is_closed, "the holder is there"
                self.was_told_lost = True
            case LogDirsFailed(broker_ids):
                self.failures_told.update(broker_ids)
            case other:
                raise AssertionError(f"the holder tells no {other}")

    # -- what it asks for

    async def _ask(
        self, what: str, question: Callable[[SharedStore], Awaitable[Result]], *, lasts: bool
    ) -> Result | None:
        """The answer; None if the holder has ended, or its disk failed a durable write."""
        assert self.store is not None
        failures = self.world.disk.failures
        self.pending[what] += 1
        try:
            return await question(self.store)
        except Fenced:
            raise
        except StoreError:
            fails = lasts and failures < self.world.disk.failures
            if not fails and self.is_open:
                raise
            return None
        finally:
            self.pending[what] -= 1
            self.pending += Counter()

    async def ask_in_vain(self) -> None:
        """After its holder has ended, each request fails at once."""
        assert self.store is not None
        try:
            await self.store.campaign()
        except StoreError:
            self.end()

    async def register(self) -> None:
        assert self.store is not None
        processes = self.world.laws.processes
        gone = [each for each in processes if each.connection is not None and each.is_forgotten]
        self.has_asked_to_register = True
        try:
            image = await self._ask("register", self._register, lasts=False)
        except StoreError:
            others = [each for each in processes if each.id == self.id and each is not self]
            assert any(each not in gone for each in others), f"{self} is refused, and is alone"
            self.world.seen["refused to register"] += 1
            if self.world.chance.random() < 0.8:
                self.end()
            return
        if image is not None:
            known = image.brokers[self.id]
            assert known.endpoints[0].port == self.port, "it is told of another process"
            self.is_vacant |= not self.is_registered
            self.is_registered = True
            self.world.seen["registered"] += 1

    async def _register(self, store: SharedStore) -> ClusterImage:
        return await store.register(self.registration)

    async def campaign(self) -> None:
        self.is_vacant = False
        self.campaigns = True
        before, resigns = len(self.controller_epochs), self._resigns - self.pending["resign"]
        elected = await self._ask("campaign", SharedStore.campaign, lasts=False)
        if elected:
            self.world.seen["elected"] += 1
            was_elected = before < len(self.controller_epochs) or self.is_controller
            assert was_elected or resigns < self._resigns, f"{self} is elected and has not seen it"

    async def resign(self) -> None:
        self._resigns += 1
        await self._ask("resign", SharedStore.resign, lasts=False)

    async def leave(self) -> None:
        """Stop like a broker: resign, then disconnect."""
        term = self.image.controller_id, self.image.controller_epoch
        await self.resign()
        if self.is_open:
            now = self.image.controller_id, self.image.controller_epoch
            still = now == term and self.is_controller and self.is_registered
            still &= self.pending["resign"] == 0
            assert not still, f"{self} has resigned and still is it"
        self.world.seen["left"] += 1
        self.end()

    async def fail_log_dir(self) -> None:
        assert self.store is not None
        present = [each for each in self.world.laws.processes if each.is_open]
        if not self.is_registered:
            return
        await self._ask("log dir", SharedStore.log_dir_failed, lasts=False)
        if self.is_open:
            for each in present:
                each.failures_due[self.id] += 1

    async def take_producer_ids(self, count: int) -> None:
        async def ask(store: SharedStore) -> range:
            return await store.allocate_producer_ids(count)

        ids = await self._ask("producer ids", ask, lasts=True)
        if ids is not None:
            assert len(ids) == count
            self.world.seen["producer ids"] += 1
            self.world.laws.took_producer_ids(ids)

    async def write(self, write: Write) -> None:
        """Commit `write` in its controller epoch, which may be an earlier one."""

        async def ask(store: SharedStore) -> ClusterImage:
            if write.is_controllers and write.epoch != store._epoch:
                changes = [*map(encode, write.changes)]
                question = {"ask": "commit", "epoch": write.epoch, "changes": changes}
                answer = await store._ask(question)
                if "fenced" in answer:
                    raise Fenced(answer["fenced"])
                if "conflict" in answer:
                    raise Conflict(answer["conflict"], answer["made"])
            return await store.commit(write.changes)

        laws, seen, failures = self.world.laws, self.world.seen, self.world.disk.failures
        try:
            image = await self._ask("write", ask, lasts=True)
        except Fenced:
            seen["fenced"] += 1
            laws.fenced(write)
        except Conflict as conflict:
            seen["conflict"] += 1
            write_failed = self.world.disk.failures > failures
            laws.conflicts(write, conflict, None if write_failed else self.image)
        else:
            if image is not None:
                seen["made for the controller" if write.is_controllers else "made"] += 1
                laws.acknowledged(write, image)

    async def decide(self, decide: Callable[[ClusterImage], Write]) -> None:
        """Commit what `decide` returns for the present image; repeat on a conflict."""
        decided: list[Write] = []

        def change(image: ClusterImage) -> Change:
            decided.append(decide(image))
            return decided[-1].changes[0]

        async def ask(store: SharedStore) -> bool:
            decisions: Sequence[Decision] = [change]
            await commit_decided(store, lambda: self.image, decisions)
            return True

        if await self._ask("decision", ask, lasts=True):
            self.world.seen["decided"] += 1
            self.world.seen["decided again"] += len(decided) > 1
            self.world.laws.acknowledged(decided[-1], self.image)
            for each in decided[:-1]:
                assert each.version < 0, "it was decided again and had been made"
