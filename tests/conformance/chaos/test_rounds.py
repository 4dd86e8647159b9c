"""Whole rounds against this broker, and against one that loses what it acknowledged."""

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
from kwire.conformance.chaos.plan import FaultKind, Plan
from kwire.conformance.chaos.rounds import HISTORY_FILE, Verdict
from kwire.conformance.chaos.subject import Subject, kwire
from kwire.conformance.chaos.workloads import Client, Stage
from kwire.testing import BrokerStartError


def drawn(seed: int, kind: FaultKind) -> Plan:
    return plan.draw(seed, [kind], ["plain"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "kind"),
    [
        (4, FaultKind.KILL),
        pytest.param(2, FaultKind.PAUSE, marks=pytest.mark.long),
        pytest.param(5, FaultKind.RESTART, marks=pytest.mark.long),
    ],
)
def test_a_round(seed: int, kind: FaultKind, tmp_path: Path) -> None:
    """`make chaos` has 200 of them."""
    verdict = rounds.run(drawn(seed, kind), kwire, tmp_path)
    assert verdict.violations == []
    assert verdict.operations > 50  # thousands, where nothing else is at work


@pytest.mark.long
@pytest.mark.slow
def test_a_round_of_transfers(tmp_path: Path) -> None:
    verdict = rounds.run(plan.draw(2, [FaultKind.KILL], ["bank"]), kwire, tmp_path)
    assert verdict.violations == []
    history = History.read(tmp_path / HISTORY_FILE)
    assert any(end.ok for end in history.operations("end_txn"))
    assert quiet_looks(history), "the balance was never looked at"


@pytest.mark.slow
def test_a_round_of_transfers_with_new_epochs(tmp_path: Path) -> None:
    """KIP-890: some ends of transactions are asked for again, with the epoch before."""
    verdict = rounds.run(plan.draw(2, [FaultKind.KILL], ["tv2"]), kwire, tmp_path)
    assert verdict.violations == []
    history = History.read(tmp_path / HISTORY_FILE)
    unanswered = {note.asked["request"] for note in history.operations("unanswered")}
    assert unanswered, "who is asked twice is left to chance; that somebody is, is not"
    assert any(end.ok for end in history.operations("end_txn"))
    assert any(look.answered["offsets"] for look in history.operations("committed"))
    assert quiet_looks(history), "the balance was never looked at"


@pytest.mark.slow
def test_a_round_of_chains(tmp_path: Path) -> None:
    """Its kill is one after which librdkafka hangs with its own recovery strategy."""
    verdict = rounds.run(plan.draw(4, [FaultKind.KILL], ["chain"]), kwire, tmp_path)
    assert verdict.violations == []
    history = History.read(tmp_path / HISTORY_FILE)
    logs = committed_records(history)
    assert any(log for partition, log in logs.items() if partition.startswith("booked-"))


@pytest.mark.slow
def test_a_round_of_keys(tmp_path: Path) -> None:
    """It ends only once something was cleaned: `stuck` otherwise."""
    verdict = rounds.run(plan.draw(1, [FaultKind.KILL], ["keys"]), kwire, tmp_path)
    assert verdict.violations == []
    history = History.read(tmp_path / HISTORY_FILE)
    assert any(put.asked["tombstone"] for put in history.operations("put"))


@dataclass
class Forgetful(Subject):
    """A broker that loses the newer half of each log with its process, as a bad disk would."""

    def kill(self) -> None:
        super().kill()
        for log in self.data_dir.glob("stream-*/*.log"):
            with log.open("r+b") as file:
                file.truncate(log.stat().st_size // 2)


def forgetful(directory: Path, settings: Mapping[str, str]) -> Subject:
    sound = kwire(directory, settings)
    return Forgetful(sound.command, sound.address, sound.data_dir, sound.log_file)


@pytest.mark.slow
def test_a_broker_that_loses_records_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "RECOVERY_S", 3.0)  # its consumers never catch up
    verdict = rounds.run(drawn(4, FaultKind.KILL), forgetful, tmp_path)
    found = {violation.kind for violation in verdict.violations}
    assert {"lost", "end went back"} <= found


class TestCommand:
    def run(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str
    ) -> tuple[int, str]:
        """Every third round shows a violation."""

        def fake(plan: Plan, make: object, directory: Path) -> Verdict:
            (directory / HISTORY_FILE).write_text("{}")
            found = [Violation("lost", "t-0: p's 7")] if plan.seed % 3 == 0 else []
            return Verdict(plan, "tmpfs", 10, 2, 1.0, found)

        monkeypatch.setattr(rounds, "run", fake)
        result = CliRunner().invoke(command.main, ["--keep", str(tmp_path / "kept"), *options])
        return result.exit_code, result.output

    def test_no_violation(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        status, said = self.run(monkeypatch, tmp_path, "--seed", "1", "--rounds", "2")
        assert status == 0
        assert "seed 1 " in said
        assert "seed 2 " in said
        assert said.endswith("2 rounds, 0 with violations \n")
        assert not (tmp_path / "kept").exists()

    def test_a_violation(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        status, said = self.run(monkeypatch, tmp_path, "--seed", "2", "--rounds", "3")
        assert status == 1
        assert "lost: t-0: p's 7" in said
        assert said.endswith("3 rounds, 1 with violations [3]\n")
        assert (tmp_path / "kept" / "3" / HISTORY_FILE).exists()

    def test_a_seed_alone_is_one_round(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        arguments = ("--seed", "7", "--only-fault", "pause", "--workload", "plain")
        status, said = self.run(monkeypatch, tmp_path, *arguments)
        assert status == 0
        assert said.startswith("seed 7  plain  ")
        assert "pause" in said
        assert said.endswith("1 rounds, 0 with violations \n")


class Endless(Client):
    """Asks a broker that is gone, and goes on."""

    over = threading.Event()

    def run(self, stop: threading.Event) -> None:
        self.over.wait()


def test_the_first_cause_is_told_where_clients_do_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "CLIENT_END_S", 0.01)
    with closing(Recorder(tmp_path / "history.jsonl")) as recorder:
        endless = Endless("endless", Stage(round_plan(1, 1), (), recorder))
        with pytest.raises(BrokerStartError, match="no reply"), rounds.at_work([endless]):
            raise BrokerStartError("no reply within 300 s")
        with pytest.raises(rounds.ClientHangs, match="endless"), rounds.at_work([endless]):
            pass
        endless.over.set()
