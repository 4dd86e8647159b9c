"""Requests to a share coordinator about one share partition, as values.

`request.ask(store)` calls the method of the store that the request stands for.  The same value can
also be sent to another broker (kwire.coordinators.share_partitions.remote_states).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import ShareStateWrite

ReplyT = TypeVar("ReplyT")
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class ShareStateStore(Protocol[ReplyT_co]):
    """Answers the requests; kwire.coordinators.share.machine explains each operation."""

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> ReplyT_co: ...
    def read(self, key: ShareKey, leader_epoch: int) -> ReplyT_co: ...
    def write(self, key: ShareKey, written: ShareStateWrite) -> ReplyT_co: ...
    def summary(self, key: ShareKey) -> ReplyT_co: ...
    def delete(self, key: ShareKey) -> ReplyT_co: ...


class InitializeState(NamedTuple):
    key: ShareKey
    state_epoch: int
    start_offset: int

    def ask(self, store: ShareStateStore[ReplyT]) -> ReplyT:
        return store.initialize(*self)


class ReadState(NamedTuple):
    key: ShareKey
    leader_epoch: int

    def ask(self, store: ShareStateStore[ReplyT]) -> ReplyT:
        return store.read(*self)


class WriteState(NamedTuple):
    key: ShareKey
    written: ShareStateWrite

    def ask(self, store: ShareStateStore[ReplyT]) -> ReplyT:
        return store.write(*self)


class SummarizeState(NamedTuple):
    key: ShareKey

    def ask(self, store: ShareStateStore[ReplyT]) -> ReplyT:
        return store.summary(self.key)


class DeleteState(NamedTuple):
    key: ShareKey

    def ask(self, store: ShareStateStore[ReplyT]) -> ReplyT:
        return store.delete(self.key)


ShareStateRequest = InitializeState | ReadState | WriteState | SummarizeState | DeleteState
