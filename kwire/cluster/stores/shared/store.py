"""A broker's side of metadata that another process of its machine holds."""

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
from kwire.cluster.stores.contract import (
    ControllerGone,
    Fenced,
    LogDirsFailed,
    Place,
    SessionLost,
    StoreError,
    StoreEvent,
    Watcher,
)
from kwire.cluster.stores.shared.lines import Outbox, Said, encoded, lines


class _Question:
    """Something that was asked, and the answer when it is there."""

    __slots__ = ("answer", "answered")

    def __init__(self) -> None:
        self.answered = trio.Event()
        self.answer: Said | None = None


class SharedStore:
    """A ClusterStore; `connect` makes it.

    All topics are in its image, also where this broker is not the controller.  When the process
    that holds the metadata ends, so does the membership (SessionLost), and there is no way back.
    """

    has_way_back = False

    def __init__(self, stream: trio.SocketStream) -> None:
        self.on_event: Callable[[StoreEvent], None] | None = None
        self._stream = stream
        self._outbox = Outbox()
        self._image = ClusterImage("")
        self._watchers: list[Watcher] = []
        self._questions: dict[int, _Question] = {}
        self._ids = count(1)
        self._gone = False
        self._broker_id = -1
        self._epoch = -1
        """As which this broker is, or was last, the controller."""

    @classmethod
    async def connect(cls, path: Path, nursery: trio.Nursery) -> Self:
        """Join the process that listens on `path`; listening to it runs in `nursery`.

        Raises StoreError.
        """
        try:
            stream = await trio.open_unix_socket(str(path))
        except OSError as problem:
            raise StoreError(f"nobody holds the metadata at {path}: {problem}") from problem
        store = cls(stream)
        nursery.start_soon(store._outbox.send, stream)
        await nursery.start(store._listen)
        return store

    async def load(self) -> ClusterImage:
        return self._image

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    async def commit(self, changes: Sequence[Change]) -> ClusterImage:
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

    async def log_dir_failed(self) -> None:
        await self._ask({"ask": "log_dir_failed"})

    async def read_configs(self, keys: Iterable[ResourceKey]) -> ClusterImage:
        """All that is set is told to all."""
        return self._image

    async def has_topics(self) -> bool:
        return bool(self._image.topics)

    async def drop_reassignments(self, places: Iterable[Place]) -> None:
        """Nobody can ask for one here but by the API."""

    async def resign(self) -> None:
        await self._ask({"ask": "resign"})

    def close(self) -> None:
        self._watchers.clear()
        self.on_event = None
        self._gone = True
        self._stream.socket.close()

    # -- talking

    async def _ask(self, said: Said) -> Said:
        """The answer to a question.  Raises StoreError."""
        if self._gone:
            raise StoreError("the process that held the metadata is gone")
        number, question = next(self._ids), _Question()
        self._questions[number] = question
        try:
            self._outbox.add([encoded({"id": number, **said})])
            await question.answered.wait()
        finally:
            self._questions.pop(number, None)
        if question.answer is None:
            raise StoreError("the process that held the metadata is gone")
        if "error" in question.answer:
            raise StoreError(question.answer["error"])
        return question.answer

    async def _listen(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow what is told; it has started once all that was there before is known."""
        try:
            await self._follow(task_status)
        finally:
            self._stream.socket.close()
            self._lost()

    async def _follow(self, task_status: trio.TaskStatus[None]) -> None:
        """Raises StoreError before it has started, where not all of that is told."""
        missing = -1
        changes: list[Change] = []
        async for said in lines(self._stream):
            if "begin" in said:
                self._image = ClusterImage(said["begin"]["cluster_id"])
                missing = said["begin"]["lines"]
            elif "changes" in said:
                changes += map(decode, said["changes"])
                missing -= 1
                if "version" in said:
                    self._changed(changes, said["version"])
                    changes = []
                if missing == 0:
                    task_status.started()
            else:
                self._told(said)
        if missing > 0 or not self._image.cluster_id:
            raise StoreError("the process that holds the metadata ended before it told all of it")

    def _changed(self, changes: Sequence[Change], version: int) -> None:
        before = self._image
        self._image = apply_all(before, changes).with_version(version)
        delta = delta_of(before, self._image, changes)
        if self._image.controller_id == self._broker_id:
            self._epoch = self._image.controller_epoch
        for watcher in tuple(self._watchers):
            watcher(self._image, delta)

    def _told(self, said: Said) -> None:
        if said.get("event") == "controller_gone":
            self._tell(ControllerGone())
        elif said.get("event") == "log_dir_failed":
            self._tell(LogDirsFailed((said["broker"],)))
        elif (question := self._questions.get(said.get("id", 0))) is not None:
            question.answer = said
            question.answered.set()

    def _tell(self, event: StoreEvent) -> None:
        if self.on_event is not None:
            self.on_event(event)

    def _lost(self) -> None:
        was_open, self._gone = not self._gone, True
        for question in self._questions.values():
            question.answered.set()
        if was_open:
            self._tell(SessionLost())
