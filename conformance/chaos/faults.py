"""The nemesis: brings the faults of a plan to a broker and takes them away again."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterable

from kwire.conformance.chaos.disk import Disk
from kwire.conformance.chaos.history import NEMESIS, Recorder, Type, Value
from kwire.conformance.chaos.plan import Fault, FaultKind
from kwire.conformance.chaos.subject import Subject

KNOCK_S = 1.0
"""A broker that accepts nothing has its kernel answer a few all the same."""
SLOW_STOP_S, SLOW_RUN_S = 0.04, 0.01
"""A slow process runs a fifth of the time."""
STARVING = frozenset({FaultKind.DESCRIPTORS, FaultKind.DISK})


class Nemesis:
    """After each fault the broker runs, answers, and has all it needs."""

    def __init__(self, subject: Subject, disk: Disk, recorder: Recorder) -> None:
        self._subject = subject
        self._disk = disk
        self._recorder = recorder

    def bring_all(self, faults: Iterable[Fault]) -> None:
        """One after the other. Raises SubjectFailed."""
        for fault in faults:
            self.bring(fault)

    def bring(self, fault: Fault) -> None:
        """One fault from its begin to its end. Raises SubjectFailed."""
        time.sleep(fault.after_s)
        asked: Value = {"kind": fault.kind, "duration_s": fault.duration_s}
        if fault.kind in STARVING:
            asked["ended_by"] = fault.ended_by
        if fault.kind is FaultKind.DISK:
            asked["disk"] = self._disk.name
        begun = self._recorder.invoke(NEMESIS, "fault", **asked)
        answer = self._died() or self._faults[fault.kind](self, fault) or {}
        if self._subject.ended() is not None:
            answer |= self._died() or {}
        if self._subject.process is None:
            self._subject.start()
        self._recorder.end(begun, Type.OK, **answer)

    def _died(self) -> Value | None:
        """What to say of a broker that has ended by itself; it can then be started."""
        status = self._subject.ended()
        if status is None:
            return None
        self._subject.kill()
        return {"ended": status, "may_end": self._subject.ends_when_starved}

    def _kill(self, fault: Fault) -> Value | None:
        self._subject.kill()
        if fault.again_after_s is not None:
            self._subject.spawn()
            time.sleep(fault.again_after_s)
            died = self._died()
            if died is not None:
                return died | {"may_end": False}
            self._subject.kill()
        time.sleep(fault.duration_s)
        return None

    def _pause(self, fault: Fault) -> Value | None:
        self._subject.pause()
        time.sleep(fault.duration_s)
        self._subject.resume()
        return None

    def _slow(self, fault: Fault) -> Value | None:
        until = time.monotonic() + fault.duration_s
        while time.monotonic() < until:
            self._subject.pause()
            time.sleep(SLOW_STOP_S)
            self._subject.resume()
            time.sleep(SLOW_RUN_S)
        return None

    def _restart(self, fault: Fault) -> Value | None:
        answer = self._stopped(may_end=False)
        time.sleep(fault.duration_s)
        return answer

    def _stopped(self, *, may_end: bool) -> Value | None:
        """Stop the broker; something to say only if it ended in another way than it should."""
        status = self._subject.stop()
        if status in self._subject.stop_statuses:
            return None
        return {"ended": status, "may_end": may_end and status > 0}

    def _starve_of_descriptors(self, fault: Fault) -> Value | None:
        """Idle clients take what was left, and one more knocks."""
        undo = self._subject.limit_descriptors(fault.spare_descriptors)
        with contextlib.ExitStack() as idle:
            for _ in range(fault.spare_descriptors + 1):
                with contextlib.suppress(OSError):
                    idle.enter_context(socket.create_connection(self._subject.address, KNOCK_S))
            return self._starve(fault, undo)

    def _starve_of_disk(self, fault: Fault) -> Value | None:
        return self._starve(fault, self._disk.fill(self._subject.pid, fault.room_bytes))

    def _starve(self, fault: Fault, undo: Callable[[], None]) -> Value | None:
        time.sleep(fault.duration_s)
        died = self._died()
        if died is None and fault.ended_by is FaultKind.KILL:
            self._subject.kill()
        elif died is None and fault.ended_by is FaultKind.RESTART:
            died = self._stopped(may_end=True)  # it may say that it could not save everything
        undo()
        return died

    _faults: dict[FaultKind, Callable[[Nemesis, Fault], Value | None]] = {  # noqa: RUF012 - never changed
        FaultKind.KILL: _kill,
        FaultKind.PAUSE: _pause,
        FaultKind.RESTART: _restart,
        FaultKind.DESCRIPTORS: _starve_of_descriptors,
        FaultKind.DISK: _starve_of_disk,
        FaultKind.SLOW: _slow,
    }
