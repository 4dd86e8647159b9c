"""Injects the faults of a plan into one broker, and ends them."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterable

from kwire.conformance.chaos.disk import Disk
from kwire.conformance.chaos.history import NEMESIS, Recorder, Type, Value
from kwire.conformance.chaos.plan import BrokerFault, BrokerFaultKind
from kwire.conformance.chaos.subject import ChaosSubject

CONNECT_TIMEOUT_S = 1.0
"""Timeout of a connection attempt: the kernel accepts a few for a broker that accepts none."""
SLOW_STOP_S, SLOW_RUN_S = 0.04, 0.01
"""A slow process runs a fifth of the time."""
STARVING = frozenset({BrokerFaultKind.DESCRIPTORS, BrokerFaultKind.DISK})


class BrokerNemesis:
    """Injects faults; after each one the broker runs, answers, and has all resources it needs."""

    def __init__(self, subject: ChaosSubject, disk: Disk, recorder: Recorder) -> None:
        self._subject = subject
        self._disk = disk
        self._recorder = recorder

    def inject_all(self, faults: Iterable[BrokerFault]) -> None:
        """Inject one fault after the other. Raises SubjectFailed."""
        for fault in faults:
            self.inject(fault)

    def inject(self, fault: BrokerFault) -> None:
        """Inject one fault and wait until it is over. Raises SubjectFailed."""
        time.sleep(fault.after_s)
        arguments: Value = {"kind": fault.kind, "duration_s": fault.duration_s}
        if fault.kind in STARVING:
            arguments["ended_by"] = fault.ended_by
        if fault.kind is BrokerFaultKind.DISK:
            arguments["disk"] = self._disk.name
        begun = self._recorder.invoke(NEMESIS, "fault", **arguments)
        answer = self._exit_result() or self._faults[fault.kind](self, fault) or {}
        if self._subject.ended() is not None:
            answer |= self._exit_result() or {}
        if self._subject.process is None:
            self._subject.start()
        self._recorder.end(begun, Type.OK, **answer)

    def _exit_result(self) -> Value | None:
        """Return the result to record if the broker has ended by itself, else None; it can then be
        started."""
        status = self._subject.ended()
        if status is None:
            return None
        self._subject.kill()
        return {"ended": status, "may_end": self._subject.ends_when_starved}

    def _kill(self, fault: BrokerFault) -> Value | None:
        """Kill the broker, in some rounds once more while it starts.

        Return its exit status if it ended by itself while it started, else None.
        """
        self._subject.kill()
        if fault.again_after_s is not None:
            self._subject.spawn()
            time.sleep(fault.again_after_s)
            died = self._exit_result()
            if died is not None:
                return died | {"may_end": False}
            self._subject.kill()
        time.sleep(fault.duration_s)
        return None

    def _pause(self, fault: BrokerFault) -> Value | None:
        """Pause the broker for the time of the fault; return None, for it cannot have ended."""
        self._subject.pause()
        time.sleep(fault.duration_s)
        self._subject.resume()
        return None

    def _slow(self, fault: BrokerFault) -> Value | None:
        """Stop and continue the process in turns, so that the broker is slow; return None."""
        until = time.monotonic() + fault.duration_s
        while time.monotonic() < until:
            self._subject.pause()
            time.sleep(SLOW_STOP_S)
            self._subject.resume()
            time.sleep(SLOW_RUN_S)
        return None

    def _restart(self, fault: BrokerFault) -> Value | None:
        answer = self._stop(may_end=False)
        time.sleep(fault.duration_s)
        return answer

    def _stop(self, *, may_end: bool) -> Value | None:
        """Stop the broker; the result to record if its exit status is not an expected one."""
        status = self._subject.stop()
        if status in self._subject.stop_statuses:
            return None
        return {"ended": status, "may_end": may_end and status > 0}

    def _starve_of_descriptors(self, fault: BrokerFault) -> Value | None:
        """Idle clients take the remaining descriptors, and one more client connects."""
        undo = self._subject.limit_descriptors(fault.spare_descriptors)
        with contextlib.ExitStack() as idle:
            for _ in range(fault.spare_descriptors + 1):
                with contextlib.suppress(OSError):
                    idle.enter_context(
                        socket.create_connection(self._subject.address, CONNECT_TIMEOUT_S)
                    )
            return self._starve(fault, undo)

    def _starve_of_disk(self, fault: BrokerFault) -> Value | None:
        return self._starve(fault, self._disk.fill(self._subject.pid, fault.room_bytes))

    def _starve(self, fault: BrokerFault, undo: Callable[[], None]) -> Value | None:
        """Wait while a resource is used up, end the broker if the plan says so, and call `undo`.

        Return the exit status of a broker that has ended, else None.
        """
        time.sleep(fault.duration_s)
        died = self._exit_result()
        if died is None and fault.ended_by is BrokerFaultKind.KILL:
            self._subject.kill()
        elif died is None and fault.ended_by is BrokerFaultKind.RESTART:
            died = self._stop(may_end=True)  # it may report that it could not save everything
        undo()
        return died

    _faults: dict[BrokerFaultKind, Callable[[BrokerNemesis, BrokerFault], Value | None]] = {  # noqa: RUF012 - never changed
        BrokerFaultKind.KILL: _kill,
        BrokerFaultKind.PAUSE: _pause,
        BrokerFaultKind.RESTART: _restart,
        BrokerFaultKind.DESCRIPTORS: _starve_of_descriptors,
        BrokerFaultKind.DISK: _starve_of_disk,
        BrokerFaultKind.SLOW: _slow,
    }
