"""SharedStore: the broker's side of metadata that another process of the machine holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Self

import trio

from kwire.cluster.metadata.change_records import decode, encode
from kwire.cluster.metadata.changes import Change, Conflict, RegisterBroker, apply_all
from kwire.cluster.metadata.delta import delta_of
from kwire.cluster.metadata.image import BrokerImage, ClusterImage, ResourceKey
from kwire.cluster.metadata.quorum import MetadataQuorum, ReplicaProgress
from kwire.cluster.stores.contract import (
    BrokerEnded,
    ControllerGone,
    Fenced,
    LogDirsFailed,
    Place,
    SessionLost,
    StoreError,
    StoreEvent,
    Watcher,
)
from kwire.cluster.stores.shared.lines import JsonObject, LineSender, encoded, lines


class _PendingRequest:
    """A request that was sent; `answer` stays None if the connection ends first."""

    __slots__ = ("answer", "answered")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer: JsonObject | None = None


class SharedStore:
    """A ClusterStore; made by `connect`.

    Its image has all topics, even if this broker is not the controller.  When the holder ends, the
    membership ends too (SessionLost), and the broker cannot register again.
    """

    can_register_again = False

    def __init__(self, stream: trio.SocketStream) -> None:
        """`stream` is connected to the holder; the image is empty until it sends one."""
        self.on_event: Callable[[StoreEvent], None] | None = None
        self._stream = stream
        self._outbox = LineSender()
        self._image = ClusterImage("")
        self._watchers: list[Watcher] = []
        self._pending: dict[int, _PendingRequest] = {}
        self._ids = count(1)
        self._gone = False
        self._broker_id = -1
        self._epoch = -1
        """The controller epoch in which this broker is, or was last, the controller."""

    @classmethod
    async def connect(cls, path: Path, nursery: trio.Nursery) -> Self:
        """Connect to the holder that listens on `path`; returns after it has sent the snapshot.

        Reading from and writing to the connection run in `nursery`.  Raises StoreError.
        """
        try:
            stream = await trio.open_unix_socket(str(path))
        except OSError as problem:
            raise StoreError(
                f"cannot connect to the process that holds the metadata at {path}: {problem}"
            ) from problem
        store = cls(stream)
        nursery.start_soon(store._outbox.send, stream)
        await nursery.start(store._listen)
        return store

    async def load(self) -> ClusterImage:
        return self._image

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
        """Has the holder commit the changes; returns the image that has them.

        Raises Conflict, StoreError; Fenced if this broker is no longer the controller.
        """
        answer = await self._ask(
            {"ask": "commit", "epoch": self._epoch, "changes": [*map(encode, changes)]}
        )
        if "conflict" in answer:
            raise Conflict(answer["conflict"], answer["made"])
        if "fenced" in answer:
            raise Fenced(answer["fenced"])
        return self._image

    async def register(self, broker: BrokerImage) -> ClusterImage:
        self._broker_id = broker.id
        await self._ask({"ask": "register", "broker": encode(RegisterBroker(broker))})
        return self._image

    async def allocate_producer_ids(self, count: int) -> range:
        first: int = (await self._ask({"ask": "producer_ids", "count": count}))["first"]
        return range(first, first + count)

    async def campaign(self) -> bool:
        elected: bool = (await self._ask({"ask": "campaign"}))["elected"]
        return elected

    async def quorum(self, asked_ms: int) -> MetadataQuorum:
        """See MetadataStore.quorum.  The holder asks all brokers how far they are."""
        answer = await self._ask({"ask": "quorum", "at": asked_ms})
        observers = tuple([ReplicaProgress(*each) for each in answer["observers"]])
        return MetadataQuorum(
            answer["leader"], answer["epoch"], answer["end_offset"], asked_ms, observers
        )

    async def log_dir_failed(self) -> None:
        await self._ask({"ask": "log_dir_failed"})

    async def read_configs(self, keys: Iterable[ResourceKey]) -> ClusterImage:
        """The image as it is: the holder sends all configs to all brokers."""
        return self._image

    async def has_topics(self) -> bool:
        return bool(self._image.topics)

    async def drop_reassignments(self, places: Iterable[Place]) -> None:
        """Do nothing: here administrators can request reassignments by the API alone."""

    async def resign(self) -> None:
        await self._ask({"ask": "resign"})

    def close(self) -> None:
        """Closes the connection; watchers and `on_event` are not called any more."""
        self._watchers.clear()
        self.on_event = None
        self._gone = True
        self._stream.socket.close()

    # -- the connection

    async def _ask(self, request: JsonObject) -> JsonObject:
        """Sends `request` to the holder; returns the answer.  Raises StoreError."""
        if self._gone:
            raise await self._ended()
        number, pending = next(self._ids), _PendingRequest()
        self._pending[number] = pending
        try:
            self._outbox.add([encoded({"id": number, **request})])
            await pending.answered.wait()
        finally:
            self._pending.pop(number, None)
        if pending.answer is None:
            raise await self._ended()
        if "error" in pending.answer:
            raise StoreError(pending.answer["error"])
        return pending.answer

    @staticmethod
    async def _ended() -> StoreError:
        """Return the error for requests after the connection has ended.

        A broker that is stopped while it starts cancels the connection and the task that asks.
        That task must end by its cancellation: a StoreError would be the broker's exit status.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        return StoreError("the process that held the metadata has ended")

    async def _listen(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Handles the holder's messages until the connection ends.

        The task counts as started once the whole snapshot has been received.
        """
        try:
            await self._process_lines(task_status)
        finally:
            self._stream.socket.close()
            self._lost()

    async def _process_lines(self, task_status: trio.TaskStatus[None]) -> None:
        """Handles the holder's messages: snapshot, changes, events and answers.

        Raises StoreError if the connection ends before the whole snapshot has been received.
        """
        missing = -1  # lines of the snapshot that have not come yet
        changes: list[Change] = []
        async for message in lines(self._stream):
            if "begin" in message:
                self._image = ClusterImage(message["begin"]["cluster_id"])
                missing = message["begin"]["lines"]
            elif "changes" in message:
                changes += map(decode, message["changes"])
                missing -= 1
                # Only the last line of a group has the version: watchers see whole commits.
                if "version" in message:
                    self._changed(changes, message["version"])
                    changes = []
                if missing == 0:
                    task_status.started()
            else:
                self._handle(message)
        if missing > 0 or not self._image.cluster_id:
            raise StoreError("the process that holds the metadata ended before it sent all of it")

    def _changed(self, changes: Sequence[Change], version: int) -> None:
        """Applies the changes that the holder has committed, and calls the watchers."""
        before = self._image
        self._image = apply_all(before, changes).with_version(version)
        delta = delta_of(before, self._image, changes)
        if self._image.controller_id == self._broker_id:
            self._epoch = self._image.controller_epoch
        for watcher in tuple(self._watchers):
            watcher(self._image, delta)

    def _handle(self, message: JsonObject) -> None:
        """Handles an event, or the answer to a request.

        An answer is ignored if nobody waits for it any more.
        """
        if message.get("event") == "controller_gone":
            self._report(ControllerGone())
        elif message.get("event") == "broker_ended":
            self._report(BrokerEnded(message["broker"]))
        elif message.get("event") == "log_dir_failed":
            self._report(LogDirsFailed((message["broker"],)))
        elif message.get("event") == "report":
            # No request has the id 0, so the response, which has no content, is ignored.
            report = {"id": 0, "ask": "report", "version": self._image.version}
            self._outbox.add([encoded(report)])
        elif (pending := self._pending.get(message.get("id", 0))) is not None:
            pending.answer = message
            pending.answered.set()

    def _report(self, event: StoreEvent) -> None:
        if self.on_event is not None:
            self.on_event(event)

    def _lost(self) -> None:
        """Handles the end of the connection: waiting requests fail, SessionLost is reported."""
        was_open, self._gone = not self._gone, True
        for pending in self._pending.values():
            pending.answered.set()
        if was_open:
            self._report(SessionLost())
