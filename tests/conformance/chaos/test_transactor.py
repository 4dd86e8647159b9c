"""When a transactional id begins as new: librdkafka may not go on from every abort."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from kwire.conformance.chaos import plan
from kwire.conformance.chaos.history import Recorder, Type
from kwire.conformance.chaos.plan import FaultKind
from kwire.conformance.chaos.workloads.transactions import Transactor
from kwire.conformance.chaos.workloads.workload import Stage


class Waiting(confluent_kafka.Producer):
    """librdkafka's, with so many records on their way, of which some are answered when they are
    waited for; transactions begin and end at once."""

    def __init__(self, count: int, answered: int) -> None:
        super().__init__({})
        self.count = count
        self.answered = answered

    def __len__(self) -> int:
        return self.count

    def flush(self, timeout: float = -1) -> int:
        self.count -= self.answered
        return self.count

    def begin_transaction(self) -> None:
        pass

    def abort_transaction(self, timeout: float = -1) -> None:
        self.count = 0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    recorder = Recorder(tmp_path / "history.jsonl")
    yield Stage(plan.draw(1, [FaultKind.KILL], ["bank"]), (), recorder)
    recorder.close()


def fails() -> None:
    raise BufferError("made up")


@pytest.mark.parametrize("work", [lambda: None, fails], ids=["on purpose", "after a failure"])
@pytest.mark.parametrize(
    ("count", "answered", "usable"), [(0, 0, True), (3, 3, True), (3, 2, False), (3, 0, False)]
)
def test_after_an_abort_with_records_on_their_way(
    stage: Stage, work: Callable[[], None], count: int, answered: int, usable: bool
) -> None:
    transactor = Transactor(stage, "id", "process", lambda *_: Waiting(count, answered))
    assert transactor.run(work, commit=False)[0] is Type.FAIL
    assert transactor.usable is usable
