"""Short churn tests; `make churn` runs longer ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.conformance.chaos.churn import round as churn
from kwire.conformance.chaos.churn.member import KINDS, MIGRATING, SHARE
from kwire.conformance.chaos.churn.plan import ALL_KINDS
from kwire.conformance.chaos.history import History
from kwire.conformance.kraft_cluster import APACHE, KWIRE

pytestmark = pytest.mark.slow
SEED = 2594
"""A seed whose first four events are all of HAPPENED."""
LOSES_EACH = 31
"""A seed whose first sixteen events kill each of three brokers."""
HAPPENED = ("fault", "kill_member", "leave_member", "pause_member")


def history_in(directory: Path) -> History:
    return History.read(*directory.glob("*.jsonl"))


def test_groups_of_all_protocols_survive_churn(tmp_path: Path) -> None:
    """The broker and a member are killed, one member leaves, and one is paused."""
    verdict = churn.run(SEED, 3, KINDS, tmp_path, moves_least=4)
    assert verdict.violations == []
    history = history_in(tmp_path)
    assert all(history.operations(what) for what in HAPPENED), "it follows from the seed"
    read = {each.arguments["group"] for each in history.operations("poll")}
    shared = {each.arguments["group"] for each in history.operations("deliver")}
    assert read | shared == set(KINDS)


@pytest.mark.java
@pytest.mark.long
def test_kafka_streams_counts_exactly_during_churn(apache_kafka_libs: Path, tmp_path: Path) -> None:
    verdict = churn.run(2, 20, ALL_KINDS, tmp_path)
    assert verdict.violations == []
    assert verdict.happened["counts"] > 0


@pytest.mark.long
def test_groups_survive_churn_of_a_cluster_of_brokers(tmp_path: Path) -> None:
    """Their coordinators and the leaders of what they read move, and the states of share groups.

    One group goes from the classic to the consumer protocol and back meanwhile.
    """
    verdict = churn.run(SEED, 20, (MIGRATING, SHARE), tmp_path, brokers=3, moves_least=4)
    assert verdict.violations == []
    assert all(history_in(tmp_path).operations(what) for what in HAPPENED)


@pytest.mark.java
@pytest.mark.long
@pytest.mark.parametrize("kinds", [(KWIRE, KWIRE, APACHE), (APACHE, APACHE, KWIRE)], ids="-".join)
def test_groups_of_all_kinds_survive_churn_of_a_mixed_cluster(
    kinds: tuple[str, ...], apache_kafka_libs: Path, tmp_path: Path
) -> None:
    """Brokers of both kinds are killed one after the other."""
    verdict = churn.run(LOSES_EACH, 40, ALL_KINDS, tmp_path, broker_kinds=kinds, moves_least=16)
    assert verdict.violations == []
    killed = {each.result["broker"] for each in history_in(tmp_path).operations("fault")}
    assert killed == {1, 2, 3}, "it follows from the seed"
