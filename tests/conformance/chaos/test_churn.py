"""Members that come and go, in short; and how they are looked after."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.chaos.churn import round as churn
from kwire.conformance.chaos.churn.member import KINDS, MIGRATING, SHARE
from kwire.conformance.chaos.churn.plan import ALL_KINDS
from kwire.conformance.chaos.history import History

pytestmark = pytest.mark.slow
SEED = 2594
"""With which all of that comes in the first four moves."""
HAPPENED = ("fault", "kill_member", "leave_member", "pause_member")


def history_in(directory: Path) -> History:
    return History.read(*directory.glob("*.jsonl"))


def test_groups_of_all_protocols_outlive_churn(tmp_path: Path) -> None:
    """The broker and a member are killed, one leaves, one is paused; `make churn` has more."""
    verdict = churn.run(SEED, 3, KINDS, tmp_path, moves_least=4)
    assert verdict.violations == []
    history = history_in(tmp_path)
    assert all(history.operations(what) for what in HAPPENED), "it follows from the seed"
    read = {each.asked["group"] for each in history.operations("poll")}
    shared = {each.asked["group"] for each in history.operations("deliver")}
    assert read | shared == set(KINDS)


@pytest.mark.java
@pytest.mark.long
def test_kafka_streams_too(apache_kafka_libs: Path, tmp_path: Path) -> None:
    verdict = churn.run(2, 20, ALL_KINDS, tmp_path)
    assert verdict.violations == []
    assert verdict.happened["counts"] > 0


@pytest.mark.long
def test_groups_outlive_the_brokers_of_a_cluster(tmp_path: Path) -> None:
    """Their coordinators and the leaders of what they read move, and the states of share groups.

    One group goes from the classic to the consumer protocol and back meanwhile.
    """
    verdict = churn.run(SEED, 20, (MIGRATING, SHARE), tmp_path, brokers=3, moves_least=4)
    assert verdict.violations == []
    assert all(history_in(tmp_path).operations(what) for what in HAPPENED)
