"""StoreServer: the holder's side of a shared store.

It decides three things only.  A broker is a member while it is connected and has registered.  The
first member that asks while there is no controller becomes the controller.  Only the controller may
change topics.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import trio

from kwire.cluster.metadata.change_records import decode, encode
from kwire.cluster.metadata.changes import (
    ANY_BROKER_CHANGES,
    Change,
    Conflict,
    KeepRegistration,
    RegisterBroker,
    SetController,
    UnregisterBroker,
)
from kwire.cluster.metadata.delta import ClusterDelta, changes_for, delta_between
from kwire.cluster.metadata.image import NO_CONTROLLER, BrokerImage, ClusterImage
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.local import LocalStore
from kwire.cluster.stores.shared.lines import CHANGES_A_LINE, JsonObject, LineSender, encoded, lines

log = logging.getLogger("kwire.cluster.shared")

REPORT_TIMEOUT_S: Final = 1.0
"""How long to wait for the reports of brokers about their version of the metadata.

Of a broker that does not report in this time, the last report counts."""

CONTROLLER_ONLY = "only the controller may change topics, and this broker is not the controller"


def listen(path: Path) -> socket.socket:
    """A listening Unix socket at `path`; closing it leaves the file.  Raises OSError."""
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
        """`image` is the present image of `store`."""
        self.store = store
        self.image = image
        """The latest image that was sent to all members."""
        self.controller: MemberConnection | None = None
        self._elected = trio.Event()
        """Set once the election of `controller` is published."""
        # Partitions name the last controllers: a new one must have a larger epoch.
        self.controller_epoch = max(
            (
                state.controller_epoch
                for topic in image.topics.values()
                for state in topic.partitions
            ),
            default=0,
        )
        self.controller_epoch = max(self.controller_epoch, image.controller_epoch)
        self._members: list[MemberConnection] = []
        self._departure = trio.Event()
        # Each registration is a commit.  So epochs are larger than before a restart, unless the
        # disk was full.
        self._next_broker_epoch = store.offset_of(image) + 1
        store.watch(self._published)

    async def serve(
        self,
        listening: socket.socket,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve brokers that connect to `listening` (see `listen`), until cancelled."""
        with trio.socket.from_stdlib_socket(listening) as accepting:
            await self.serve_on(trio.SocketListener(accepting), task_status)

    async def serve_on(
        self,
        listener: trio.abc.Listener[Any],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve brokers that connect to `listener`, until cancelled."""
        task_status.started()
        await trio.serve_listeners(self._serve_connection, [listener])

    async def _serve_connection(self, stream: trio.abc.Stream) -> None:
        """Serves one broker until it disconnects, then unregisters it.

        The broker first receives a snapshot of the metadata, then all changes.
        """
        member = MemberConnection(self, stream)
        member.send_lines(_snapshot(self.image))
        self._members.append(member)
        try:
            await member.run()
        finally:
            if member.broker_id is not None:
                # Before the commits below, which wait for the disk.
                self.send_to_all({"event": "broker_ended", "broker": member.broker_id})
            # The broker leaves the metadata even if the server is stopping.
            with trio.CancelScope(shield=True):
                await self._unregister(member)
            self._members.remove(member)
            member.gone.set()
            self._departure.set()

    def _published(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Sends the changes of a new image to all members."""
        change_lines = [*_change_lines(image.version, [*changes_for(self.image, delta)])]
        self.image = image
        for member in self._members:
            member.send_lines(change_lines)

    async def wait_until_empty(self) -> None:
        """Wait until no broker is connected."""
        while self._members:
            self._departure = trio.Event()
            await self._departure.wait()

    def new_broker_epoch(self) -> int:
        """A broker epoch larger than all earlier ones (KIP-380)."""
        epoch, self._next_broker_epoch = self._next_broker_epoch, self._next_broker_epoch + 1
        return epoch

    def member(self, broker_id: int) -> MemberConnection | None:
        """The connection that has registered as that broker, None if there is none."""
        return next((member for member in self._members if member.broker_id == broker_id), None)

    async def keep_registration(self, broker: BrokerImage) -> None:
        """Keep the registration of a broker beyond its session, unless it is kept already.

        A full disk must not stop the broker, so that a failure is only logged.
        """
        if self.image.registered.get(broker.id) == broker:
            return
        try:
            await self.store.commit([KeepRegistration(broker)])
        except StoreError as problem:
            log.error("Cannot keep the registration of broker %d: %s", broker.id, problem)

    async def elect(self, member: MemberConnection) -> bool:
        """Make `member` the controller if there is none; returns whether `member` is it now."""
        if self.controller is member:
            await self._elected.wait()  # The broker may ask twice before the election is on disk.
        if self.controller is not None:
            return self.controller is member
        assert member.broker_id is not None
        self.controller = member
        self._elected = elected = trio.Event()
        self.controller_epoch += 1
        change = SetController(NO_CONTROLLER, member.broker_id, self.controller_epoch)
        await self.store.commit([change])
        elected.set()
        return True

    async def dismiss(self, member: MemberConnection) -> None:
        """Ends the term of `member` as the controller, if it is the controller."""
        if self.controller is not member:
            return
        assert member.broker_id is not None
        self.controller = None
        change = SetController(member.broker_id, NO_CONTROLLER, self.controller_epoch)
        await self.store.commit([change])
        self.send_to_all({"event": "controller_gone"})

    async def quorum(self, asked_ms: int) -> JsonObject:
        """Ask all members how far they have followed the metadata; returns the answer to a broker.

        Waits REPORT_TIMEOUT_S at most.
        """
        members = [each for each in self._members if each.broker_id is not None]
        with trio.move_on_after(REPORT_TIMEOUT_S):
            async with trio.open_nursery() as nursery:
                for member in members:
                    nursery.start_soon(member.report, asked_ms)
        image = self.image
        base = self.store.offset_of(image) - image.version
        observers = [
            [each.broker_id, base + each.version, each.fetched_ms, each.caught_up_ms]
            for each in members
            if each.broker_id in image.brokers and each.broker_id != image.controller_id
        ]
        return {
            "leader": image.controller_id,
            "epoch": image.controller_epoch,
            "end_offset": base + image.version,
            "observers": sorted(observers),
        }

    def send_to_all(self, message: JsonObject) -> None:
        """Send `message` to all members."""
        for member in self._members:
            member.send(message)

    async def _unregister(self, member: MemberConnection) -> None:
        """Remove a broker whose connection has ended from the metadata.

        Its registration is kept, until an administrator drops it.
        """
        member.is_leaving = True
        try:
            await self.dismiss(member)
            if member.broker_id is not None:
                with suppress(Conflict):  # An administrator has unregistered it before.
                    await self.store.commit([UnregisterBroker(member.broker_id)])
        except StoreError as problem:
            log.error("Cannot remove %s, which has left, from the metadata: %s", member, problem)


class MemberConnection:
    """The connection of one broker; `broker_id` is None until the broker registers."""

    def __init__(self, server: StoreServer, stream: trio.abc.Stream) -> None:
        """The broker is not registered yet."""
        self.broker_id: int | None = None
        self.is_leaving = False
        self.gone = trio.Event()
        """Set once the broker has been removed from the metadata."""
        self._server = server
        self._stream = stream
        self._outbox = LineSender()
        self.version = 0
        """The version of the metadata that the broker had at `fetched_ms`."""
        self.fetched_ms = self.caught_up_ms = -1
        self._asked_ms = -1
        self._reported = trio.Event()

    def __str__(self) -> str:
        return "a broker" if self.broker_id is None else f"broker {self.broker_id}"

    def send(self, message: JsonObject) -> None:
        self.send_lines([encoded(message)])

    def send_lines(self, encoded_lines: Iterable[bytes]) -> None:
        self._outbox.add(encoded_lines)

    async def report(self, asked_ms: int) -> None:
        """Ask the broker at the time `asked_ms` for a report; return when it has come.

        A broker handles lines in their order.  So it then has everything that was sent before.
        """
        self._asked_ms = max(self._asked_ms, asked_ms)
        reported = self._reported
        self.send({"event": "report"})
        await reported.wait()

    def _note_report(self, version: int) -> None:
        self.version, self.fetched_ms = version, self._asked_ms
        if version >= self._server.image.version:
            self.caught_up_ms = self._asked_ms
        self._reported.set()
        self._reported = trio.Event()

    async def run(self) -> None:
        """Answer requests until the connection ends."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._outbox.send, self._stream)
            # Handle errors here: outside the nursery they would be an exception group.  An invalid
            # line on one connection must not end the process that all brokers share.
            try:
                async with aclosing(lines(self._stream)) as requests:
                    async for request in requests:
                        if "id" not in request or "ask" not in request:
                            raise StoreError("a line is not a request")
                        nursery.start_soon(self._answer, request)
            except StoreError as problem:
                log.error("Closing the connection of %s: %s", self, problem)
            # Set it before the tasks have ended: a commit of this broker may still wait for the
            # disk, and the restarted broker has to wait for that.
            self.is_leaving = True
            nursery.cancel_scope.cancel()

    async def _answer(self, request: JsonObject) -> None:
        """Handles a request and sends the answer, or the Conflict or error."""
        try:
            answer = await self._handle(request)
        except Conflict as conflict:
            answer = {"conflict": str(conflict), "made": conflict.made}
        except StoreError as problem:
            answer = {"error": str(problem)}
        self.send({"id": request["id"], **answer})

    async def _handle(self, request: JsonObject) -> JsonObject:
        """Carries out `request`; returns the response.  Raises Conflict, StoreError."""
        server, store = self._server, self._server.store
        match request["ask"]:
            case "register":
                await self._register(request)
            case "campaign":
                self._must_be_registered()
                return {"elected": await server.elect(self)}
            case "resign":
                await server.dismiss(self)
            case "log_dir_failed":
                self._must_be_registered()
                server.send_to_all({"event": "log_dir_failed", "broker": self.broker_id})
            case "report":
                self._note_report(request["version"])
            case "quorum":
                return await server.quorum(request["at"])
            case "producer_ids":
                ids = await store.allocate_producer_ids(request["count"])
                return {"first": ids.start}
            case "commit":
                changes = [decode(change) for change in request["changes"]]
                # The controller epoch fences: a controller may have been dismissed and elected
                # again since it decided these changes.
                if not all(isinstance(change, ANY_BROKER_CHANGES) for change in changes) and (
                    server.controller is not self or request["epoch"] != server.controller_epoch
                ):
                    return {"fenced": CONTROLLER_ONLY}
                await store.commit(changes)
            case unknown:
                raise StoreError(f"{self} sent a request {unknown!r} that this version lacks")
        return {}

    async def _register(self, request: JsonObject) -> None:
        """Registers the broker, with a new broker epoch.

        Waits for the end of an earlier process with the same node.id that is leaving.  Raises
        StoreError if the other process is not leaving.
        """
        change = decode(request["broker"])
        assert isinstance(change, RegisterBroker)
        broker = change.broker
        while (other := self._server.member(broker.id)) not in (None, self):
            assert other is not None
            if not other.is_leaving:
                raise StoreError(
                    f"a broker with node.id {broker.id} is already registered: give each broker its"
                    " own node.id"
                )
            # The earlier process of this broker has ended, but is still in the metadata.
            await other.gone.wait()
        self.broker_id = broker.id
        epoch = self._server.new_broker_epoch()
        registered = replace(broker, epoch=epoch)
        await self._server.store.commit([RegisterBroker(registered)])
        await self._server.keep_registration(broker)

    def _must_be_registered(self) -> None:
        if self.broker_id is None:
            raise StoreError("this request needs a registered broker")


def _snapshot(image: ClusterImage) -> Iterator[bytes]:
    """Yield the lines that build `image` from an empty one, for a new connection."""
    empty = ClusterImage(image.cluster_id)
    change_lines = [
        *_change_lines(image.version, [*changes_for(empty, delta_between(empty, image))])
    ]
    yield encoded({"begin": {"cluster_id": image.cluster_id, "lines": len(change_lines)}})
    yield from change_lines


def _change_lines(version: int, changes: Sequence[Change]) -> Iterator[bytes]:
    """Yield lines of `changes`; the last one has the version of the image after all of them."""
    for start in range(0, max(1, len(changes)), CHANGES_A_LINE):
        part = changes[start : start + CHANGES_A_LINE]
        message: JsonObject = {"changes": [encode(change) for change in part]}
        if start + CHANGES_A_LINE >= len(changes):
            message["version"] = version
        yield encoded(message)
