"""The side of the process that holds the metadata for the brokers of its machine.

It decides nothing but who is a member (whoever is connected and has registered), who is the
controller (the first to ask while there is none), and that nobody else changes topics.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import trio

from kwire.cluster.metadata.change_records import decode, encode
from kwire.cluster.metadata.changes import (
    ANY_BROKER_CHANGES,
    Change,
    Conflict,
    RegisterBroker,
    SetController,
    UnregisterBroker,
)
from kwire.cluster.metadata.delta import ClusterDelta, changes_for, delta_between
from kwire.cluster.metadata.image import NO_CONTROLLER, BrokerImage, ClusterImage
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.local import LocalStore
from kwire.cluster.stores.shared.lines import CHANGES_A_LINE, Outbox, Said, encoded, lines

log = logging.getLogger("kwire.cluster.shared")

MEMBERS_ONLY = "only the controller changes topics, and this broker is not it (any longer)"


def listen(path: Path) -> socket.socket:
    """A Unix socket at `path`, which is left there.  Raises OSError."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(str(path))
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


class StoreServer:
    """Shares `store` with the brokers that connect to a Unix socket."""

    def __init__(self, store: LocalStore, image: ClusterImage) -> None:
        self.store = store
        self.image = image
        """As it has been told to all members."""
        self.controller: Member | None = None
        self.controller_epoch = max(
            (
                state.controller_epoch
                for topic in image.topics.values()
                for state in topic.partitions
            ),
            default=image.controller_epoch,
        )
        self._members: list[Member] = []
        self._departure = trio.Event()
        self._next_broker_epoch = image.version + 1
        store.watch(self._published)

    async def serve(
        self,
        listening: socket.socket,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve who connects to `listening`, see `listen`, until cancelled."""
        with trio.socket.from_stdlib_socket(listening) as accepting:
            await self.serve_on(trio.SocketListener(accepting), task_status)

    async def serve_on(
        self,
        listener: trio.abc.Listener[Any],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """The same for whatever gives streams."""
        task_status.started()
        await trio.serve_listeners(self._meet, [listener])

    async def _meet(self, stream: trio.abc.Stream) -> None:
        member = Member(self, stream)
        member.tell_all(_snapshot(self.image))
        self._members.append(member)
        try:
            await member.run()
        finally:
            with trio.CancelScope(shield=True):
                await self._left(member)
            self._members.remove(member)
            member.gone.set()
            self._departure.set()

    def _published(self, image: ClusterImage, delta: ClusterDelta) -> None:
        told = [*_told(image.version, [*changes_for(self.image, delta)])]
        self.image = image
        for member in self._members:
            member.tell_all(told)

    async def everybody_gone(self) -> None:
        """Wait until no broker is connected."""
        while self._members:
            self._departure = trio.Event()
            await self._departure.wait()

    def new_broker_epoch(self) -> int:
        """Larger than all before (KIP-380)."""
        epoch, self._next_broker_epoch = self._next_broker_epoch, self._next_broker_epoch + 1
        return epoch

    def member(self, broker_id: int) -> Member | None:
        """Who has registered as that broker."""
        return next((each for each in self._members if each.broker_id == broker_id), None)

    async def elect(self, member: Member) -> bool:
        """Whether `member` is the controller from now on, as nobody else is."""
        if self.controller is not None:
            return self.controller is member
        assert member.broker_id is not None
        self.controller = member
        self.controller_epoch += 1
        change = SetController(NO_CONTROLLER, member.broker_id, self.controller_epoch)
        await self.store.commit([change])
        return True

    async def dismiss(self, member: Member) -> None:
        """`member` is not the controller any longer, if it was."""
        if self.controller is not member:
            return
        assert member.broker_id is not None
        self.controller = None
        change = SetController(member.broker_id, NO_CONTROLLER, self.controller_epoch)
        await self.store.commit([change])
        self.tell({"event": "controller_gone"})

    def tell(self, said: Said) -> None:
        """All members."""
        for each in self._members:
            each.tell(said)

    async def _left(self, member: Member) -> None:
        """A broker is gone, by its own will or not."""
        member.is_leaving = True
        try:
            await self.dismiss(member)
            if member.broker_id is not None:
                await self.store.commit([UnregisterBroker(member.broker_id)])
        except StoreError as problem:
            log.error("%s left: %s", member, problem)


class Member:
    """A broker's connection; nobody's until it has registered."""

    def __init__(self, server: StoreServer, stream: trio.abc.Stream) -> None:
        self.broker_id: int | None = None
        self.is_leaving = False
        self.gone = trio.Event()
        """Set once nothing of it is left in the metadata."""
        self._server = server
        self._stream = stream
        self._outbox = Outbox()

    def __str__(self) -> str:
        return "a broker" if self.broker_id is None else f"broker {self.broker_id}"

    def tell(self, said: Said) -> None:
        self.tell_all([encoded(said)])

    def tell_all(self, told: Iterable[bytes]) -> None:
        self._outbox.add(told)

    async def run(self) -> None:
        """Listen to it until it goes."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._outbox.send, self._stream)
            # Within the nursery, which would raise a group: whatever one connection says must not
            # end the process that all brokers share.
            try:
                async with aclosing(lines(self._stream)) as questions:
                    async for said in questions:
                        if "id" not in said or "ask" not in said:
                            raise StoreError("a line is no question")
                        nursery.start_soon(self._answer, said)
            except StoreError as problem:
                log.error("the connection of %s is closed: %s", self, problem)
            # From now on: what it has asked for may still wait for the disk.
            self.is_leaving = True
            nursery.cancel_scope.cancel()

    async def _answer(self, said: Said) -> None:
        try:
            answer = await self._done(said)
        except Conflict as conflict:
            answer = {"conflict": str(conflict), "made": conflict.made}
        except StoreError as problem:
            answer = {"error": str(problem)}
        self.tell({"id": said["id"], **answer})

    async def _done(self, said: Said) -> Said:
        """Do what is asked; gives the answer.  Raises Conflict, StoreError."""
        server, store = self._server, self._server.store
        match said["ask"]:
            case "register":
                await self._register(said)
            case "campaign":
                self._must_be_registered()
                return {"elected": await server.elect(self)}
            case "resign":
                await server.dismiss(self)
            case "log_dir_failed":
                self._must_be_registered()
                server.tell({"event": "log_dir_failed", "broker": self.broker_id})
            case "producer_ids":
                ids = await store.allocate_producer_ids(said["count"])
                return {"first": ids.start}
            case "commit":
                changes = [decode(change) for change in said["changes"]]
                if not all(isinstance(change, ANY_BROKER_CHANGES) for change in changes) and (
                    server.controller is not self or said["epoch"] != server.controller_epoch
                ):
                    return {"fenced": MEMBERS_ONLY}
                await store.commit(changes)
            case unknown:
                raise StoreError(f"{self} asked for {unknown!r}, which this version does not know")
        return {}

    async def _register(self, said: Said) -> None:
        change = decode(said["broker"])
        assert isinstance(change, RegisterBroker)
        broker = change.broker
        while (other := self._server.member(broker.id)) not in (None, self):
            assert other is not None
            if not other.is_leaving:
                raise StoreError(
                    f"there is a broker {broker.id} already: give each its own node.id"
                )
            await other.gone.wait()
        self.broker_id = broker.id
        epoch = self._server.new_broker_epoch()
        registered = BrokerImage(broker.id, broker.endpoints, broker.rack, epoch, broker.features)
        await self._server.store.commit([RegisterBroker(registered)])

    def _must_be_registered(self) -> None:
        if self.broker_id is None:
            raise StoreError("only a broker that has registered can be the controller")


def _snapshot(image: ClusterImage) -> Iterator[bytes]:
    """All of `image`, for who knows nothing yet."""
    nothing = ClusterImage(image.cluster_id)
    told = [*_told(image.version, [*changes_for(nothing, delta_between(nothing, image))])]
    yield encoded({"begin": {"cluster_id": image.cluster_id, "lines": len(told)}})
    yield from told


def _told(version: int, changes: Sequence[Change]) -> Iterator[bytes]:
    """Changes in lines; the last has the version that they lead to together."""
    for at in range(0, max(1, len(changes)), CHANGES_A_LINE):
        said: Said = {"changes": [encode(each) for each in changes[at : at + CHANGES_A_LINE]]}
        if at + CHANGES_A_LINE >= len(changes):
            said["version"] = version
        yield encoded(said)
