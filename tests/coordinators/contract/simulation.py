"""Drives a coordinator machine without a broker: the test moves the clock, the log is a list.

It uses the same driver as the broker (kwire.coordinators.contract.driver).  In addition it can
refuse appends, and replay the log into a second machine at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from kwire.codecs.batches import Record, build
from kwire.codecs.coordinator_errors import client_error
from kwire.codecs.errors import ErrorCode
from kwire.coordinators.contract.driver import AnyEffects, Driver
from kwire.coordinators.contract.effects import Ticket, TimerKey
from kwire.coordinators.contract.machine import Machine, MachineRecord
from kwire.coordinators.contract.replaying import ReplayedRecord, ReplaySlice

M = TypeVar("M", bound=Machine[Any, Any, Any])
RecordT = TypeVar("RecordT", bound=MachineRecord)

START_MS = 1_000_000


class Simulation(Driver[M], Generic[M, RecordT]):
    """See the module."""

    def __init__(self, machine: M) -> None:
        super().__init__(machine)
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None]] = []
        self.records: list[RecordT] = []
        """The appended records, not encoded."""
        self.notes: list[str] = []
        self.append_error: ErrorCode | None = None
        """Appends fail with this error while it is set."""
        self.timers: dict[TimerKey, tuple[int, int, Any]] = {}
        """(time at which it fires, number of its setting, timer)."""
        self._timers_set = 0

    def load(self) -> None:
        """Carry out the effects that follow a replay of the log."""
        for effects in list(self.machine.loaded(self.now_ms)):
            self.carry_out(effects)

    def replay_into(self, machine: M) -> M:
        """Replay the log into a machine as a broker does, without replaced records."""
        written = [Record(0, self.now_ms, key, value) for key, value in self.log]
        for each in ReplaySlice(bytes(build(written)), machine.replaced_keys) if written else ():
            assert isinstance(each, ReplayedRecord)
            record = machine.decode(each.key, each.value)
            assert record is not None, "what is written can be read"
            machine.apply(record)
        return machine

    def write(self, record: RecordT) -> None:
        """Append and apply a record, without a decision."""
        key, value = record.encode()
        self.log.append((key, value))
        self.records.append(record)
        assert self.machine.decode(key, value) is not None, "what is written can be read"
        self.machine.apply(record)

    def wait(self, time_ms: int) -> None:
        """Advance the clock; timers fire in order."""
        until_ms = self.now_ms + time_ms
        while self.timers:
            key = min(self.timers, key=lambda k: self.timers[k][:2])
            due_ms, _, timer = self.timers[key]
            if due_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            del self.timers[key]
            self.carry_out(self.machine.timer_fired(timer, self.now_ms))
        self.now_ms = until_ms

    # -- the outside world

    def append(self, effects: AnyEffects, proof: object) -> ErrorCode:
        if self.append_error is not None:
            return client_error(self.append_error)
        for record in effects.records:
            self.write(record)
        return ErrorCode.NONE

    def note(self, text: str) -> None:
        self.notes.append(text)

    def set_timers(self, timers: Sequence[tuple[TimerKey, Any, int]]) -> None:
        for key, timer, delay_ms in timers:
            self.timers.pop(key, None)
            if timer is not None:
                self._timers_set += 1
                self.timers[key] = (self.now_ms + delay_ms, self._timers_set, timer)

    def has_timer(self, key: TimerKey) -> bool:
        return key in self.timers

    def reply(self, replies: Sequence[tuple[Ticket, object]]) -> None:
        for ticket, response in replies:
            ticket.resolve(response)
