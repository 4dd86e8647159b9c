"""Runs the growth benchmark at small sizes, and tests its figures and its report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.conformance.bench.brokers import Kwire, running
from kwire.conformance.bench.growth import greedy, plot, report, turns
from kwire.conformance.bench.growth.greedy import AllMetadata, Beside, WideTopic
from kwire.conformance.bench.growth.held import BUSY, ConnectionScale, LongPollScale, SessionScale
from kwire.conformance.bench.growth.results import Results
from kwire.conformance.bench.growth.rows import SCALES
from kwire.conformance.bench.growth.scale import Scale
from kwire.conformance.bench.growth.turns import Cost, MeasuredGrowth, beyond_linear
from kwire.conformance.bench.sizes import Waits

SIZE = 3
ALONE = Waits(0.5, 1.0)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kwire]:
    kwire = Kwire(tmp_path_factory.mktemp("growth") / "kwire")
    with running(kwire):
        yield kwire


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.key)
def test_each_step_of_a_scale_succeeds_again_and_again(scale: Scale, broker: Kwire) -> None:
    size = BUSY if isinstance(scale, ConnectionScale) else SIZE
    requests = {ConnectionScale: BUSY, LongPollScale: SIZE}.get(type(scale), 1)
    scale.build(broker, size)
    for _ in range(2):
        with scale.opened(broker, size) as steps:
            first = next(iter(steps))
            for name, step in steps.items():
                expected = requests if name == first else 1
                assert [step(), step(), step()] == [expected] * 3, name
    if scale.is_stored:
        scale.wait_until_served(broker, size)


@pytest.mark.slow
def test_both_sizes_of_a_scale_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "IDLE_S", 0.01)
    monkeypatch.setattr(turns, "SETTLE_S", 0.01)
    growth = turns.measure(
        SessionScale(), Kwire, tmp_path, full=20, rounds=2, seconds=0.01, warm_s=0.0
    )
    assert list(growth.costs) == ["Fetch with nothing new", "Produce to one, and Fetch"]
    assert min(cost.tenth for cost in growth.costs.values()) > 0
    assert min(growth.memory) > 0
    assert not growth.start
    assert len(growth.idle) == 2


@pytest.mark.slow
@pytest.mark.parametrize("greed", [AllMetadata(), WideTopic(20)], ids=lambda greed: greed.key)
def test_waits_beside_a_greedy_client_are_measured(
    greed: greedy.Greed, broker: Kwire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AllMetadata, "topics", 20)
    monkeypatch.setattr(greedy, "SETTLE_S", 0.01)
    beside = greedy.measure(greed, broker, 0.1)
    assert beside.alone.longest > 0
    assert beside.beside.longest > 0


def test_cost_has_medians_and_the_median_of_the_ratios() -> None:
    cost = Cost.of([(10.0, 20.0), (20.0, 20.0), (40.0, 60.0)])
    assert cost == (20.0, 20.0, 1.5, 1.0, 2.0)


@pytest.mark.parametrize(
    ("values", "growth"),
    [
        pytest.param((30.0, 31.0, 40.0), 1.0, id="as much each"),
        pytest.param((30.0, 31.0, 80.0), 2.0, id="twice as much in all"),
        pytest.param((30.0, 29.0, 30.0), 1.0, id="less at a tenth"),
    ],
)
def test_growth_beyond_linear_compares_full_size_with_ten_tenths(
    values: tuple[float, ...], growth: float
) -> None:
    assert beyond_linear(values) == growth


def a_result() -> Results:
    session = MeasuredGrowth(
        {"Fetch": Cost(50.0, 100.0, 2.0, 1.9, 2.1)}, [30.0, 31.0, 40.0], idle=[1, 2]
    )
    stored = MeasuredGrowth(
        {"Produce": Cost(50.0, 51.0, 1.02, 1.0, 1.1)}, [30.0, 31.0, 40.0], [1, 2, 3]
    )
    return Results(
        machine=[("cores", "2")],
        note="A note.",
        sizes={"session": 1_000, "topics": 10_000},
        scales={"session": {"kwire": session}, "topics": {"kwire": stored, "other": stored}},
        greedy={"large": {"kwire": Beside(ALONE, Waits(7.0, 80.0))}},
    )


def test_report_says_which_figures_are_not_met() -> None:
    text = report.markdown(a_result())
    lines = text.splitlines()
    assert (
        "| a consumer of 1,000 partitions | Fetch | 50.0 | 100 | 2.00 (1.90-2.10) |  |  |  | NO |"
    ) in lines
    (produce,) = (line for line in lines if "| Produce |" in line)
    assert produce.startswith("| 10,000 topics of one partition |")
    assert produce.endswith("| yes |")
    assert "| Produce requests of 99 MB |  | 0.50 | 7.00 | 80.0 |  |  |  | NO |" in lines
    assert "A note." in lines


def test_partial_run_keeps_the_other_results(tmp_path: Path) -> None:
    path = tmp_path / "growth.json"
    assert Results.read(path) == Results()
    a_result().write(path)
    again = Results.read(path)
    assert again == a_result()
    assert report.markdown(again) == report.markdown(a_result())


def test_plot_shows_each_request(tmp_path: Path) -> None:
    plot.draw(a_result(), tmp_path / "growth.svg")
    text = (tmp_path / "growth.svg").read_text()
    assert "<!-- a consumer of 1,000 partitions: Fetch -->" in text
    assert "<!-- Produce requests of 99 MB -->" in text
