"""Runs a churn test: a broker, members that join and leave, producers, and the checks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kwire.conformance.chaos.checks import Violation, violations
from kwire.conformance.chaos.checks.answers import COMMON_CHECKS
from kwire.conformance.chaos.checks.commits import COMMIT_CHECKS
from kwire.conformance.chaos.checks.counts import COUNT_CHECKS
from kwire.conformance.chaos.checks.logs import LOG_CHECKS
from kwire.conformance.chaos.checks.readers import READER_CHECKS
from kwire.conformance.chaos.checks.shares import SHARE_CHECKS
from kwire.conformance.chaos.churn import plan as planning
from kwire.conformance.chaos.churn.brokers import Brokers, create
from kwire.conformance.chaos.churn.fleet import Fleet
from kwire.conformance.chaos.churn.groups import Looker, committed, configure, share_lags
from kwire.conformance.chaos.churn.member import SHARE
from kwire.conformance.chaos.churn.plan import STREAMS, ChurnEvent, ChurnEventKind, moves
from kwire.conformance.chaos.churn.streams import COUNTS, WORDS, CountReader, Program, WordWriter
from kwire.conformance.chaos.history import JUDGE, NEMESIS, History, Recorder, Type, Value
from kwire.conformance.chaos.rounds import HISTORY_FILE, patiently, run_clients
from kwire.conformance.chaos.wire import LATEST, Link
from kwire.conformance.chaos.workloads.group_reader import begin_group
from kwire.conformance.chaos.workloads.producers import CountingProducer
from kwire.conformance.chaos.workloads.stream import read_log
from kwire.conformance.chaos.workloads.workload import WorkloadClient, WorkloadStage, attempt

TOPIC = "churn"
PRODUCERS = 2
DELIVERIES = 5
LEAST = 2
"""Members of each kind at the start."""
TEND_S = 0.1
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    **{
        f"group.{kind}.{name}": value
        for kind in ("consumer", "share", "streams")
        for name, value in {
            "min.session.timeout.ms": "3000",
            "session.timeout.ms": "6000",
            "min.heartbeat.interval.ms": "500",
            "heartbeat.interval.ms": "500",
        }.items()
    },
    "group.consumer.migration.policy": "bidirectional",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.num.standby.replicas": "1",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "5000",
    "group.share.delivery.count.limit": str(DELIVERIES),
    "group.share.min.assignment.interval.ms": "0",
}
SHARE_SETTINGS = {"share.auto.offset.reset": "earliest", "share.assignment.interval.ms": "0"}
CHECKS = (
    *COMMON_CHECKS,
    *LOG_CHECKS,
    *READER_CHECKS,
    *COMMIT_CHECKS,
    *SHARE_CHECKS,
    *COUNT_CHECKS,
)


@dataclass(frozen=True, slots=True)
class ChurnVerdict:
    """The result of a churn test; `happened` counts the events by name."""

    operations: int
    not_ok: int
    seconds: float
    violations: list[Violation]
    happened: Counter[str]

    @property
    def notes(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in sorted(self.happened.items()))


def run(
    seed: int,
    load_s: float,
    kinds: Sequence[str],
    directory: Path,
    *,
    brokers: int = 1,
    broker_kinds: Sequence[str] = (),
    moves_least: int = 0,
) -> ChurnVerdict:
    """Run a churn test for `load_s`, and longer until `moves_least` events have happened.

    `kinds` are those of the groups, and `broker_kinds` those of the brokers of a mixed cluster.

    Raises SubjectFailed, BrokerStartError, ClientHangs; JavaMissing and others with Kafka Streams
    or a mixed cluster.
    """
    start = time.monotonic()
    recorder = Recorder(directory / HISTORY_FILE)
    subject = create(directory, SETTINGS, brokers, broker_kinds)
    stage = WorkloadStage(planning.round_plan(seed, load_s), subject.addresses, recorder)
    streams = Program.compiled(directory, stage.bootstrap) if STREAMS in kinds else None
    fleet = Fleet(stage, directory, TOPIC, streams)
    try:
        subject.start()
        _Round(stage, subject, fleet, kinds).play(moves_least)
    finally:
        fleet.kill_all()
        subject.kill()
        recorder.close()
    history = History.read(directory / HISTORY_FILE, *fleet.histories)
    return _verdict(history, time.monotonic() - start)


def _verdict(history: History, seconds: float) -> ChurnVerdict:
    """Return the violations of the history, and how often each event and operation occurred."""
    found_violations = violations(history, CHECKS)
    outcomes = [operation.ok for operation in history.all_operations()]
    happened = Counter({"kills of the broker": len(history.operations("fault"))})
    for what in ("join", "leave", "kill", "pause"):
        happened[f"{what}s"] = len(history.operations(f"{what}_member"))
    happened["records"] = sum(produce.ok for produce in history.operations("produce"))
    happened["read"] = _count_given(history, "poll")
    happened["shared"] = _count_given(history, "deliver")
    happened["counts"] = sum(
        len(counts) for look in history.operations("counted")
        for counts in look.result["updates"].values()
    )  # fmt: skip
    return ChurnVerdict(len(outcomes), outcomes.count(False), seconds, found_violations, happened)


def _count_given(history: History, f: str) -> int:
    operations = history.operations(f)
    return sum(len(operation.result.get("records", ())) for operation in operations)


class _Round:
    def __init__(
        self, stage: WorkloadStage, brokers: Brokers, fleet: Fleet, kinds: Sequence[str]
    ) -> None:
        """Prepare a round whose members are of these kinds.

        Share and streams groups are left out of the groups whose committed offsets are checked.
        """
        self._stage = stage
        self._brokers = brokers
        self._fleet = fleet
        self._kinds = kinds
        self._groups = [kind for kind in kinds if kind not in (SHARE, STREAMS)]
        self._partitions = range(stage.plan.partitions)
        self._counts = CountReader("counts", stage)

    def play(self, moves_least: int) -> None:
        """Play the round: prepare, let members come and go under load, catch up, read the results.

        The members end before the results are read, so that nothing changes any more.
        """
        stage = self._stage
        with stage.linked() as link:
            patiently(stage, "prepare", lambda: self._prepare(link))
            for kind in (*self._kinds,) * LEAST:
                self._fleet.join(kind)
            with run_clients(self._lookers()):
                with run_clients(self._writers()):
                    self._churn(moves_least)
                self._fleet.resume_all()
                patiently(
                    stage,
                    "catch_up",
                    lambda: self._caught_up(link),
                    lambda: self._progress(link),
                )
                self._fleet.end()
            patiently(stage, "conclude", lambda: self._conclude(link))
        self._brokers.end(stage)

    def _writers(self) -> list[WorkloadClient]:
        """Return the clients that write; their records are limited to the planned time and a
        minute."""
        most = int(self._stage.plan.rate_max * (self._stage.plan.load_s + 60))
        writers: list[WorkloadClient] = [
            CountingProducer(f"producer-{n}", self._stage, TOPIC, most) for n in range(PRODUCERS)
        ]
        return [*writers, *([WordWriter("words", self._stage)] if self._counting else [])]

    def _lookers(self) -> list[WorkloadClient]:
        looker = Looker("looker", self._stage, TOPIC, self._groups)
        return [looker, *([self._counts] if self._counting else [])]

    @property
    def _counting(self) -> bool:
        return STREAMS in self._kinds

    def _prepare(self, link: Link) -> bool:
        """Create the topics and groups; return True when all is there."""
        topics = link.topics()
        for topic in (TOPIC, *((WORDS, COUNTS) if self._counting else ())):
            if topic not in topics:
                link.create_topic(topic, len(self._partitions), {})
        for group in self._groups:
            begin_group(self._stage, link, group, TOPIC)
        configure(link, SHARE, SHARE_SETTINGS)
        return True

    # The events

    def _churn(self, moves_least: int) -> None:
        """Make the moves of the plan until the load's time is over and enough moves were made."""
        end = time.monotonic() + self._stage.plan.load_s
        for number, move in enumerate(moves(self._stage.plan.seed, self._kinds)):
            if time.monotonic() >= end and number >= moves_least:
                return
            until = time.monotonic() + move.after_s
            while (left := until - time.monotonic()) > 0:
                self._fleet.tend()
                time.sleep(min(left, TEND_S))
            self._make(move)

    def _make(self, move: ChurnEvent) -> None:
        """Carry out one move. Without a member of its kind, it is a join instead."""
        if move.what is ChurnEventKind.BROKER:
            self._kill_broker(move)
            return
        fleet, members = self._fleet, self._fleet.of(move.kind)
        if not members or (move.what is ChurnEventKind.JOIN and fleet.room(move.kind)):
            fleet.join(move.kind)
            return
        member = members[int(move.which * len(members))]
        if move.what is ChurnEventKind.PAUSE:
            fleet.pause(member, move.duration_s)
        elif move.what is ChurnEventKind.KILL:
            fleet.kill(member)
        else:
            fleet.leave(member)

    def _kill_broker(self, move: ChurnEvent) -> None:
        """Kill a broker for the time of the move, and record it as a fault."""
        arguments = {"kind": "kill", "duration_s": move.duration_s}
        begun = self._stage.recorder.invoke(NEMESIS, "fault", **arguments)
        result = self._brokers.kill_one(move.which, move.duration_s)
        self._stage.recorder.end(begun, Type.OK, **result)

    # The end

    def _caught_up(self, link: Link) -> bool:
        """Return whether all groups have read, shared or counted everything that was written.

        Members that have ended are replaced, since a group without members never catches up.
        """
        self._fleet.tend()
        for kind in self._kinds:
            if not self._fleet.of(kind):
                self._fleet.join(kind)
        ends = link.offsets(TOPIC, self._partitions, LATEST)
        return (
            all(link.committed(each, TOPIC, self._partitions) == ends for each in self._groups)
            and (SHARE not in self._kinds or self._is_shared(link))
            and (not self._counting or self._counts.seen >= self._words(link))
        )

    def _is_shared(self, link: Link) -> bool:
        lags = share_lags(link, SHARE, TOPIC)
        return len(lags) == len(self._partitions) and not any(lags.values())

    def _words(self, link: Link) -> int:
        return sum(link.offsets(WORDS, self._partitions, LATEST).values())

    def _progress(self, link: Link) -> object:
        offsets = [link.committed(each, TOPIC, self._partitions) for each in self._groups]
        lags = share_lags(link, SHARE, TOPIC) if SHARE in self._kinds else {}
        return offsets, lags, self._counts.seen

    def _conclude(self, link: Link) -> bool:
        """Record the logs, committed offsets, lags and word counts at the end; return True."""
        recorder = self._stage.recorder
        link.forget()
        for index in self._partitions:
            read = partial(read_log, link, TOPIC, index)
            attempt(recorder, JUDGE, "read_log", read, partition=f"{TOPIC}-{index}")
        for group in self._groups:
            look = partial(committed, link, group, TOPIC, self._partitions)
            attempt(recorder, JUDGE, "committed", look, group=group)
        if SHARE in self._kinds:
            lags = share_lags(link, SHARE, TOPIC)
            end = partial(dict[str, object], partitions=list(lags.items()))
            attempt(recorder, JUDGE, "share_end", end, group=SHARE, limit=DELIVERIES)
        if self._counting:
            attempt(recorder, JUDGE, "words", partial(self._written, link))
            updates = partial(dict[str, object], updates=dict(self._counts.updates))
            attempt(recorder, JUDGE, "counted", updates)
        return True

    def _written(self, link: Link) -> Value:
        """Return the number of records of each word in the topic of words."""
        counts: Counter[str] = Counter()
        for index, end in link.offsets(WORDS, self._partitions, LATEST).items():
            counts.update(value.decode() for _, value in link.read(WORDS, index, 0, end) if value)
        return {"counts": dict(counts)}
