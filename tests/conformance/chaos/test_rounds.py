"""Runs whole rounds against kwire, and against a broker that loses acknowledged records."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from kwire.conformance.chaos import command, plan, rounds
from kwire.conformance.chaos.checks import Violation
from kwire.conformance.chaos.checks.bank import quiet_looks
from kwire.conformance.chaos.checks.transactions import committed_records
from kwire.conformance.chaos.churn.plan import round_plan
from kwire.conformance.chaos.history import History, Recorder
from kwire.conformance.chaos.plan import BrokerFaultKind, BrokerPlan
from kwire.conformance.chaos.rounds import HISTORY_FILE, RoundVerdict
from kwire.conformance.chaos.subject import ChaosSubject, kwire
from kwire.conformance.chaos.workloads import WorkloadClient, WorkloadStage
from kwire.testing import BrokerStartError


def drawn(seed: int, kind: BrokerFaultKind) -> BrokerPlan:
    return plan.draw(seed, [kind], ["plain"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        (4, BrokerFaultKind.KILL),
        pytest.param(2, BrokerFaultKind.PAUSE, marks=pytest.mark.long),
        pytest.param(5, BrokerFaultKind.RESTART, marks=pytest.mark.long),
    ],
)
def test_round_with_faults_of_one_kind_has_no_violation(
    seed: int, kind: BrokerFaultKind, tmp_path: Path
) -> None:
    """`make chaos` runs 200 rounds."""
    verdict = rounds.run(drawn(seed, kind), kwire, tmp_path)
    assert verdict.violations == []
    assert verdict.operations > 50  # thousands on an idle machine


@pytest.mark.long
@pytest.mark.slow
def test_round_of_transfers_has_no_violation(tmp_path: Path) -> None:
    verdict = rounds.run(plan.draw(2, [BrokerFaultKind.KILL], ["bank"]), kwire, tmp_path)
    assert verdict.violations == []
    history = History.read(tmp_path / HISTORY_FILE)
    assert any(end.ok for end in history.operations("end_txn"))
    assert quiet_looks(history), "the balance was never checked"


@pytest.mark.long
@pytest.mark.slow
def test_round_of_transfers_with_transaction_version_2_has_no_violation(tmp_path: Path) -> None:
    """KIP-890: some EndTxn requests are repeated, with the epoch before."""
    verdict = rounds.run(plan.draw(2, [BrokerFaultKind.KILL], ["tv2"]), kwire, tmp_path)
    assert verdict.violations == []
    history = History.read(tmp_path / HISTORY_FILE)
    unanswered = {note.arguments["request"] for note in history.operations("unanswered")}
    assert unanswered, "at least one request is sent twice, whichever it is"
    assert any(end.ok for end in history.operations("end_txn"))
    assert any(look.result["offsets"] for look in history.operations("committed"))
    assert quiet_looks(history), "the balance was never checked"


@pytest.mark.slow
def test_round_of_chains_has_no_violation(tmp_path: Path) -> None:
    """With its default recovery strategy, librdkafka would hang after the kill of this seed."""
    verdict = rounds.run(plan.draw(4, [BrokerFaultKind.KILL], ["chain"]), kwire, tmp_path)
    assert verdict.violations == []
    history = History.read(tmp_path / HISTORY_FILE)
    logs = committed_records(history)
    assert any(log for partition, log in logs.items() if partition.startswith("booked-"))


@pytest.mark.long
@pytest.mark.slow
def test_round_of_keys_has_no_violation(tmp_path: Path) -> None:
    """The round has the violation `stuck` if the cleaner does nothing."""
    verdict = rounds.run(plan.draw(1, [BrokerFaultKind.KILL], ["keys"]), kwire, tmp_path)
    assert verdict.violations == []
    history = History.read(tmp_path / HISTORY_FILE)
    assert any(put.arguments["tombstone"] for put in history.operations("put"))


@dataclass
class LossyBroker(ChaosSubject):
    """A broker that loses the newer half of each log when it is killed, as with a bad disk."""

    def kill(self) -> None:
        super().kill()
        for log in self.data_dir.glob("stream-*/*.log"):
            with log.open("r+b") as file:
                file.truncate(log.stat().st_size // 2)


def lossy_broker(directory: Path, settings: Mapping[str, str]) -> ChaosSubject:
    sound = kwire(directory, settings)
    return LossyBroker(sound.command, sound.address, sound.data_dir, sound.log_file)


@pytest.mark.slow
def test_round_finds_the_records_that_a_lossy_broker_loses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "RECOVERY_S", 3.0)  # since its consumers never catch up
    verdict = rounds.run(drawn(4, BrokerFaultKind.KILL), lossy_broker, tmp_path)
    kinds = {violation.kind for violation in verdict.violations}
    assert {"lost", "end went back"} <= kinds


class TestCommand:
    def run(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str
    ) -> tuple[int, str]:
        """Run the command with fake rounds, of which every third one has a violation."""

        def fake(plan: BrokerPlan, make: object, directory: Path) -> RoundVerdict:
            (directory / HISTORY_FILE).write_text("{}")
            lost = [Violation("lost", "t-0: p's 7")] if plan.seed % 3 == 0 else []
            return RoundVerdict(plan, "tmpfs", 10, 2, 1.0, lost)

        monkeypatch.setattr(rounds, "run", fake)
        result = CliRunner().invoke(command.main, ["--keep", str(tmp_path / "kept"), *options])
        return result.exit_code, result.output

    def test_command_without_violation_exits_with_0(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        status, output = self.run(monkeypatch, tmp_path, "--seed", "1", "--rounds", "2")
        assert status == 0
        assert "seed 1 " in output
        assert "seed 2 " in output
        assert output.endswith("2 rounds, 0 with violations \n")
        assert not (tmp_path / "kept").exists()

    def test_command_with_a_violation_exits_with_1(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        status, output = self.run(monkeypatch, tmp_path, "--seed", "2", "--rounds", "3")
        assert status == 1
        assert "lost: t-0: p's 7" in output
        assert output.endswith("3 rounds, 1 with violations [3]\n")
        assert (tmp_path / "kept" / "3" / HISTORY_FILE).exists()

    def test_command_with_a_seed_alone_runs_one_round(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        arguments = ("--seed", "7", "--only-fault", "pause", "--workload", "plain")
        status, output = self.run(monkeypatch, tmp_path, *arguments)
        assert status == 0
        assert output.startswith("seed 7  plain  ")
        assert "pause" in output
        assert output.endswith("1 rounds, 0 with violations \n")


class Endless(WorkloadClient):
    """A client that does not end in time."""

    over = threading.Event()

    def run(self, stop: threading.Event) -> None:
        self.over.wait()


@pytest.mark.long
def test_error_of_the_round_is_raised_rather_than_client_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "CLIENT_END_S", 0.01)
    with closing(Recorder(tmp_path / "history.jsonl")) as recorder:
        endless = Endless("endless", WorkloadStage(round_plan(1, 1), (), recorder))
        with pytest.raises(BrokerStartError, match="no reply"), rounds.run_clients([endless]):
            raise BrokerStartError("no reply within 300 s")
        with pytest.raises(rounds.ClientHangs, match="endless"), rounds.run_clients([endless]):
            pass
        endless.over.set()
