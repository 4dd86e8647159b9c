"""`kwire pipeline …` as a process that can be killed, whole or in part, and brokers with it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

ROUNDS = int(os.environ.get("KWIRE_PIPELINE_ROUNDS", "1"))
RECORDS = int(os.environ.get("KWIRE_PIPELINE_RECORDS", "20000"))
"""Of all rounds together."""

VICTIMS = ("everything", "java", "python")
"""Of a job: all its processes at once; Spark's Java alone; or the Python that drives it, so that
Java and its workers live on for a moment as zombies do."""

QUICK = (
    "--spark", "spark.driver.memory=1g",
    "--spark", "spark.driver.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "--spark", "spark.sql.shuffle.partitions=2",
)  # fmt: skip
"""A process that lives for seconds gains nothing by what Java does for those that live long."""

FIRST_SIGN_S = 900.0
GONE_S = 300.0
"""A job whose Java was killed ends by itself, after a last look at clusters that may be away."""
POLL_S = 0.02


class Spark:
    """A `kwire pipeline` process, in a new process session."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self.log = log
        settings = ("--master", "local[2]", "--quiet", *QUICK)
        command = [sys.executable, "-m", "kwire.cli", "pipeline", *arguments, *settings]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait(self, timeout_s: float) -> int:
        return self.process.wait(timeout_s)

    def wait_until(self, sign: Callable[[], bool]) -> None:
        """Wait until the job has worked visibly, or has ended."""
        deadline = time.monotonic() + FIRST_SIGN_S
        while self.running and not sign():
            assert time.monotonic() < deadline, "the job shows no sign of work"
            time.sleep(POLL_S)

    def kill(self, victim: str) -> None:
        """kill -9; returns when all processes of the job are gone that could still write.

        Before Java has started, the whole session is killed.
        """
        if victim == "python":
            self.process.kill()
        elif (victim != "java" or not _killed(self._java())) and self.running:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(GONE_S)

    def finish(self, timeout_s: float) -> None:
        """Wait until the job ends successfully."""
        try:
            assert self.wait(timeout_s) == 0, self.log.read_text()
        finally:
            self.end()

    def end(self) -> None:
        """Kill the remaining processes of the session."""
        _killed(_session(self.process.pid))
        self.process.wait()

    def _java(self) -> list[int]:
        return [pid for pid in _session(self.process.pid) if _name(pid) == "java"]


def _killed(pids: Iterable[int]) -> bool:
    """kill -9 of processes that may end at any moment; whether one was killed."""
    found = False
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            found = True
    return found


def _session(leader: int) -> list[int]:
    running = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in running if _stat(pid)[3:4] == [str(leader)]]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, group, session, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Kills:
    """The kills of a trial, and the remaining processes of the job that was killed last."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._last: Spark | None = None

    def __str__(self) -> str:
        return str(self.counts)

    def count(self, victim: str) -> None:
        self.counts[victim] = self.counts.get(victim, 0) + 1

    def kill(self, job: Spark, victim: str) -> None:
        self.count(victim if job.running else "nothing: it had ended")
        job.kill(victim)

    def leave_behind(self, job: Spark) -> None:
        """Let processes of a killed job live until the next job has ended, but no longer."""
        self.end_last()
        self._last = job

    def end_last(self) -> None:
        if self._last is not None:
            self._last.end()


class Feeder(threading.Thread):
    """Writes numbered records of 100 bytes to all partitions, although the broker is killed."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, numbers: range) -> None:
        super().__init__(name="feeder", daemon=True)
        self.failures: list[str] = []
        self._topic = topic
        self._partitions = partitions
        self._numbers = numbers
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "message.timeout.ms": 300_000,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        for number in self._numbers:
            while True:
                try:
                    self._producer.produce(**self._record(number))
                    break
                except BufferError:
                    self._producer.poll(0.1)
            if number % 1000 == 0:
                self._producer.poll(0)
        if left := self._producer.flush(300):
            self.failures.append(f"{left} records were not acknowledged")

    def _record(self, number: int) -> dict[str, Any]:
        return {
            "topic": self._topic,
            "partition": number % self._partitions,
            "key": b"%d" % (number % 1000),
            "value": b"%d:" % number + b"x" * (90 - number % 20),
            "headers": [("number", b"%d" % number)] if number % 10 == 0 else None,
            "on_delivery": self._delivered,
        }

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failures.append(str(error))


def moment(rng: random.Random, longest_s: float) -> None:
    """Wait for a time drawn by the seed, so that kills come at random moments."""
    time.sleep(rng.uniform(0.0, longest_s))


@contextmanager
def feeding(bootstrap: str, topic: str, partitions: int, round_number: int) -> Iterator[None]:
    """Write this round's share of the records within the block; all are written at its end."""
    numbers = range(round_number * RECORDS // ROUNDS, (round_number + 1) * RECORDS // ROUNDS)
    feeder = Feeder(bootstrap, topic, partitions, numbers)
    feeder.start()
    yield
    feeder.join()
    assert feeder.failures == []
