"""Runs one round: a cluster, its clients, the faults of the plan, and the checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kwire.conformance.chaos.checks import Violation, violations
from kwire.conformance.chaos.checks.commits import refused_commits_do_not_show
from kwire.conformance.chaos.cluster import replicas
from kwire.conformance.chaos.cluster.members import (
    Ground,
    Members,
    on_one_machine,
    on_zookeeper,
)
from kwire.conformance.chaos.cluster.nemesis import ClusterNemesis
from kwire.conformance.chaos.cluster.plan import BROKERS, ClusterPlan, Store
from kwire.conformance.chaos.history import JUDGE, NEMESIS, History, Recorder, Type
from kwire.conformance.chaos.plan import RoundPlan
from kwire.conformance.chaos.rounds import HISTORY_FILE, concluded, load, patiently
from kwire.conformance.chaos.workloads import WORKLOADS, Workload, WorkloadStage

UNHANDLED = (
    "Traceback (most recent call last)",
    "ERROR unhandled",
    "before its high watermark",  # a committed record is truncated
    "below high watermark",  # the same, by Apache Kafka
)
IN_SYNC_S = 120.0
"""Limit from the end of the last fault until all replicas are in sync and equal."""
POLL_S = 0.1


class StoppableBroker(Protocol):
    """A broker with its data and its log; `stop` returns its exit status."""

    @property
    def data_dir(self) -> Path: ...
    @property
    def log(self) -> str: ...
    def stop(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ClusterVerdict:
    """The result of a round; `in_sync_s` is the time from the last fault until all are in sync."""

    plan: RoundPlan
    operations: int
    not_ok: int
    in_sync_s: float
    seconds: float
    violations: list[Violation]

    @property
    def notes(self) -> str:
        return f"in sync after {self.in_sync_s:.1f} s"


def run(plan: ClusterPlan, ground: Ground, directory: Path) -> ClusterVerdict:
    """Run a round in `directory`, which receives the history and the logs.

    Raises BrokerStartError, ClientHangs.
    """
    start = time.monotonic()
    recorder = Recorder(directory / HISTORY_FILE)
    chroot = f"/round-{plan.seed}-{time.time_ns()}"  # other rounds use the same ZooKeeper
    workload_type = WORKLOADS[plan.workload]
    settings = {**plan.broker_settings, **workload_type.broker_settings}
    try:
        with members_of(plan, ground, directory, chroot, settings) as members:
            stage = WorkloadStage(plan, members.addresses, recorder)
            workload = workload_type(stage)
            session_s = int(settings["zookeeper.session.timeout.ms"]) / 1000
            nemesis = ClusterNemesis(ground, members, chroot, session_s, recorder)
            try:
                load(workload, stage, lambda: _inject_and_heal(plan, stage, nemesis))
            finally:
                nemesis.heal()
            judge_the_end(workload, stage, members.cluster.brokers)
    finally:
        history = recorder.close()
    return verdict_of(plan, history, workload, time.monotonic() - start)


def members_of(
    plan: ClusterPlan, ground: Ground, directory: Path, chroot: str, settings: dict[str, str]
) -> AbstractContextManager[Members]:
    """Return the cluster of the plan's kind, to be started by `with`."""
    if plan.store is Store.SHARED:
        return on_one_machine(directory, BROKERS, settings)
    return on_zookeeper(ground, directory, chroot, settings)


def _inject_and_heal(plan: ClusterPlan, stage: WorkloadStage, nemesis: ClusterNemesis) -> None:
    """Inject all faults under load, and wait until the cluster has recovered."""
    nemesis.inject_all(plan.faults)
    nemesis.heal()
    expect(stage, "in_sync", lambda: replicas.out_of_sync(stage.addresses))


def expect(stage: WorkloadStage, f: str, find_problems: Callable[[], list[str]]) -> None:
    """Wait until there is no problem; records a violation if that takes too long."""
    begun = stage.recorder.invoke(JUDGE, f)
    deadline = time.monotonic() + IN_SYNC_S
    while problems := find_problems():
        if time.monotonic() > deadline:
            stage.recorder.note(JUDGE, "stuck", what=f, error="; ".join(problems[:5]))
            break
        time.sleep(POLL_S)
    stage.recorder.end(begun, Type.OK)


def judge_the_end(
    workload: Workload, stage: WorkloadStage, brokers: Mapping[int, StoppableBroker]
) -> None:
    """Record what the cluster has at the end: logs, equal replicas, exit statuses, unhandled
    errors."""
    with stage.linked() as link:
        patiently(stage, "conclude", lambda: concluded(workload, link))
    data_dirs = [broker.data_dir for broker in brokers.values()]
    expect(stage, "same_bytes", lambda: replicas.different(data_dirs))
    for number, broker in brokers.items():
        begun = stage.recorder.invoke(NEMESIS, "stop", broker=number)
        status = broker.stop()
        stage.recorder.end(begun, Type.OK, status=status, clean=status == 0)
        lines = broker.log.splitlines()
        unhandled = [line for line in lines if any(sign in line for sign in UNHANDLED)]
        stage.recorder.note(NEMESIS, "broker_log", unhandled=unhandled)


def verdict_of(
    plan: RoundPlan, history: History, workload: Workload, seconds: float
) -> ClusterVerdict:
    """Apply the checks, except one that only holds for a single broker.

    A coordinator that loses its replicas may refuse a commit that is in the log. Clients do not
    report it: librdkafka repeats the commit, and may then get the answer that its member is
    unknown.
    """
    checks = [check for check in workload.checks if check is not refused_commits_do_not_show]
    found_violations = violations(history, (*checks, brokers_live))
    outcomes = [operation.ok for operation in history.all_operations()]
    syncs = [sync for sync in history.operations("in_sync") if sync.ended_ns is not None]
    in_sync_s = sum(((sync.ended_ns or 0) - sync.invoked_ns) / 1e9 for sync in syncs)
    return ClusterVerdict(
        plan, len(outcomes), outcomes.count(False), in_sync_s, seconds, found_violations
    )


def brokers_live(history: History) -> list[Violation]:
    """No broker ends unless it is killed or stopped."""
    return [
        Violation(
            "died", f"{each.arguments['broker']} ended with status {each.arguments['status']}"
        )
        for each in history.operations("died")
    ]
