"""Runs one round: a broker, its clients, the faults of the plan, and the checks."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kwire.conformance.chaos.checks import Violation, violations
from kwire.conformance.chaos.disk import disk_at
from kwire.conformance.chaos.faults import BrokerNemesis
from kwire.conformance.chaos.history import JUDGE, NEMESIS, History, Recorder, Type
from kwire.conformance.chaos.plan import BrokerFaultKind, BrokerPlan, Reading
from kwire.conformance.chaos.subject import ChaosSubject
from kwire.conformance.chaos.watchdog import native_stacks
from kwire.conformance.chaos.wire import Link, Refused
from kwire.conformance.chaos.workloads import WORKLOADS, Workload, WorkloadClient, WorkloadStage
from kwire.conformance.chaos.workloads.workload import RECOVERY_S

HISTORY_FILE = "history.jsonl"
POLL_S = 0.05
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}

CLIENT_END_S = 3 * RECOVERY_S
"""Limit for a client to end: it waits RECOVERY_S for its answers and then closes."""


class ClientHangs(RuntimeError):
    """The thread of a client did not end, so the round has no result."""


MakeSubject = Callable[[Path, Mapping[str, str]], ChaosSubject]


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """The result of a round.

    `disk` is the way in which the disk can be filled. `not_ok` counts the operations that failed or
    whose effect is unknown because of the faults.
    """

    plan: BrokerPlan
    disk: str
    operations: int
    not_ok: int
    seconds: float
    violations: list[Violation]

    @property
    def notes(self) -> str:
        """How the disk was filled, or nothing if it was not."""
        filled = any(fault.kind is BrokerFaultKind.DISK for fault in self.plan.faults)
        return f"disk: {self.disk}" if filled else ""


def run(plan: BrokerPlan, make_subject: MakeSubject, directory: Path) -> RoundVerdict:
    """Run a round in `directory`, which receives the history and the broker's log.

    Raises SubjectFailed if the broker does not start without a fault, and ClientHangs.
    """
    start = time.monotonic()
    recorder = Recorder(directory / HISTORY_FILE)
    with disk_at(_create_directory(directory / "data")) as disk:
        settings = {**SETTINGS, **plan.broker_settings, **WORKLOADS[plan.workload].broker_settings}
        subject = make_subject(directory, settings)
        try:
            subject.start()
            stage = WorkloadStage(plan, (subject.address,), recorder)
            workload = WORKLOADS[plan.workload](stage)
            nemesis = BrokerNemesis(subject, disk, recorder)
            load(workload, stage, lambda: nemesis.inject_all(plan.faults))
            _judge_the_end(workload, stage, subject, plan.reading)
        finally:
            subject.kill()
            history = recorder.close()
        return _verdict(plan, disk.name, history, workload, time.monotonic() - start)


def _create_directory(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def _verdict(
    plan: BrokerPlan, disk: str, history: History, workload: Workload, seconds: float
) -> RoundVerdict:
    """Return the violations of the history and the numbers of its operations."""
    outcomes = [operation.ok for operation in history.all_operations()]
    found_violations = violations(history, workload.checks)
    return RoundVerdict(plan, disk, len(outcomes), outcomes.count(False), seconds, found_violations)


def load(workload: Workload, stage: WorkloadStage, inject_faults: Callable[[], None]) -> None:
    """Run the clients during the faults; returns when all clients have ended."""
    with stage.linked() as link:
        patiently(stage, "prepare", lambda: workload.prepare(link) or True)
        with run_clients(workload.readers()):
            with run_clients(workload.writers()):
                end = time.monotonic() + stage.plan.load_s
                inject_faults()
                time.sleep(max(end - time.monotonic(), 0.0))
            patiently(
                stage,
                "catch_up",
                lambda: workload.caught_up(link),
                lambda: workload.progress(link),
            )


def patiently(
    stage: WorkloadStage,
    f: str,
    work: Callable[[], bool],
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Repeat `work` until it returns true; records a violation if that takes too long.

    A broker without faults must allow it within RECOVERY_S after the last change of `progress`.
    """
    begun = stage.recorder.invoke(JUDGE, f)
    deadline, seen = time.monotonic() + RECOVERY_S, None
    while True:
        error = "never succeeded"
        try:
            if work():
                stage.recorder.end(begun, Type.OK)
                return
            before, seen = seen, progress()
            if seen != before:
                deadline = time.monotonic() + RECOVERY_S
        except Refused as refused:
            error = refused.error
        if time.monotonic() > deadline:
            stage.recorder.note(JUDGE, "stuck", what=f, error=error)
            return
        time.sleep(POLL_S)


@contextmanager
def run_clients(clients: list[WorkloadClient]) -> Iterator[None]:
    """Run each client in a thread; an exception of a client is raised here.

    An exception of the block itself takes precedence over its consequences: clients of a broker
    that does not start again do not end in time, either.
    """
    stop = threading.Event()
    failures: list[BaseException] = []

    def work(client: WorkloadClient) -> None:
        """Run a client and keep its exception for the main thread."""
        try:
            client.run(stop)
        except BaseException as failure:  # raised again in the main thread, below
            failures.append(failure)

    threads = [
        threading.Thread(target=work, args=[client], name=client.name, daemon=True)
        for client in clients
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    except BaseException:
        stop.set()
        with suppress(ClientHangs):
            _wait_for(threads)
        raise
    stop.set()
    _wait_for(threads)
    if failures:
        raise failures[0]


def _wait_for(threads: list[threading.Thread]) -> None:
    """Wait for the end of all threads.

    If one does not end, this prints the stacks of all threads, native ones too, and raises
    ClientHangs.
    """
    deadline = time.monotonic() + CLIENT_END_S
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))
        if thread.is_alive():
            faulthandler.dump_traceback(file=sys.stderr, all_threads=True)
            sys.stderr.write(native_stacks(os.getpid()))
            raise ClientHangs(f"{thread.name} did not end within {CLIENT_END_S:g} s")


def _judge_the_end(
    workload: Workload, stage: WorkloadStage, subject: ChaosSubject, reading: Reading
) -> None:
    """Read the logs at the end, from the running broker or after a kill or a restart of it."""
    if reading is Reading.KILLED:
        subject.kill()
        subject.start()
    elif reading is Reading.RESTARTED:
        _stop(stage, subject)
        subject.start()
    with stage.linked() as link:
        patiently(stage, "conclude", lambda: concluded(workload, link))
    end_subject(stage, subject)


def end_subject(stage: WorkloadStage, subject: ChaosSubject) -> None:
    """Stop the broker, and record the lines of its log that must not occur."""
    _stop(stage, subject)
    lines = subject.log_file.read_text(errors="replace").splitlines()
    unhandled = [line for line in lines if any(sign in line for sign in subject.unhandled)]
    stage.recorder.note(NEMESIS, "broker_log", unhandled=unhandled)


def concluded(workload: Workload, link: Link) -> bool:
    workload.conclude(link)
    return True


def _stop(stage: WorkloadStage, subject: ChaosSubject) -> None:
    """Stop the broker, and record its exit status and whether that is a clean stop."""
    begun = stage.recorder.invoke(NEMESIS, "stop")
    status = subject.stop()
    clean = status in subject.stop_statuses
    stage.recorder.end(begun, Type.OK, status=status, clean=clean)
