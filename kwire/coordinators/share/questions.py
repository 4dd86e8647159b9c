"""What is asked of the share coordinator about one partition, on this broker or on another one."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from kwire.coordinators.share.records import ShareKey
from kwire.coordinators.share.state import Written

ReplyT = TypeVar("ReplyT")
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Coordinator(Protocol[ReplyT_co]):
    """Whoever answers; see kwire.coordinators.share.machine for what is asked."""

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int) -> ReplyT_co: ...
    def read(self, key: ShareKey, leader_epoch: int) -> ReplyT_co: ...
    def write(self, key: ShareKey, written: Written) -> ReplyT_co: ...
    def summary(self, key: ShareKey) -> ReplyT_co: ...
    def delete(self, key: ShareKey) -> ReplyT_co: ...


class Begin(NamedTuple):
    key: ShareKey
    state_epoch: int
    start_offset: int

    def ask(self, coordinator: Coordinator[ReplyT]) -> ReplyT:
        return coordinator.initialize(*self)


class Read(NamedTuple):
    key: ShareKey
    leader_epoch: int

    def ask(self, coordinator: Coordinator[ReplyT]) -> ReplyT:
        return coordinator.read(*self)


class Write(NamedTuple):
    key: ShareKey
    written: Written

    def ask(self, coordinator: Coordinator[ReplyT]) -> ReplyT:
        return coordinator.write(*self)


class Summarize(NamedTuple):
    key: ShareKey

    def ask(self, coordinator: Coordinator[ReplyT]) -> ReplyT:
        return coordinator.summary(self.key)


class Forget(NamedTuple):
    key: ShareKey

    def ask(self, coordinator: Coordinator[ReplyT]) -> ReplyT:
        return coordinator.delete(self.key)


Question = Begin | Read | Write | Summarize | Forget
