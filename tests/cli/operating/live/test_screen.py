"""The screen of `kwire top`, drawn on a console of the test's own."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from kwire.cli.operating.live.choice import TopChoice
from kwire.cli.operating.live.loop import TopScreen
from kwire.cli.operating.live.rows import TopView
from kwire.cli.operating.live.sample import TopSample
from kwire.cli.operating.live.screen import drawn
from kwire.cli.operating.live.tables import CLIENTS, GROUPS, TABLES, TopTable
from kwire.cli.operating.live.view import view_of
from tests.cli.operating.live.samples import A0, A1, group, metrics, sample

HOSTILE = "g\x1b[31m\n\u202ered"


def view_with(count: int, *, with_metrics: bool = False) -> TopView:
    """A view with many groups, of which one has a hostile name."""
    groups = [group(HOSTILE, {A0: 0}), *(group(f"group-{n}", {A0: n}) for n in range(count))]
    found = {1: metrics(0, ""), 2: metrics(0, "")} if with_metrics else None
    return view_of(
        sample(0, {A0: 0, A1: 0}, metrics=found),
        sample(1, {A0: 1000, A1: 1000}, *groups, metrics=found),
    )


def lines_of(
    view: TopView,
    choice: TopChoice,
    height: int = 40,
    *,
    width: int = 120,
    trouble: str | None = None,
) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=False)
    console.print(drawn(view, choice, width, height, trouble))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("height", [12, 24, 60])
@pytest.mark.parametrize("table", [None, *TABLES], ids=lambda each: each.key if each else "o")
def test_screen_has_at_most_the_lines_of_the_terminal(table: TopTable | None, height: int) -> None:
    for with_metrics in (False, True):
        view = view_with(100, with_metrics=with_metrics)
        choice = TopChoice(table=table)
        limit = max(height, 4 + 4 * 6) if table is None else height
        assert len(lines_of(view, choice, height)) <= limit


def test_table_shows_the_largest_rows_and_says_how_many_there_are() -> None:
    text = "\n".join(lines_of(view_with(100), TopChoice(table=GROUPS), 20))
    assert "groups  101, 13 shown" in text
    assert "group-0 " in text
    assert "group-99 " not in text


def test_columns_that_do_not_fit_are_left_out_from_the_right() -> None:
    for width in (30, 60, 90):
        lines = lines_of(view_with(9), TopChoice(table=GROUPS), width=width)
        assert max(map(len, lines)) <= width
        titles = next(line for line in lines if line.startswith("group ")).split()
        assert titles[:2] == ["group", "type"]
        assert ("coordinator" in titles) == (width >= 90)


def test_filter_is_shown_and_applied() -> None:
    text = "\n".join(lines_of(view_with(100), TopChoice(table=GROUPS, wanted="up-77")))
    assert "filter: up-77" in text
    assert re.search(r"^groups  1 *$", text, re.MULTILINE)
    assert "group-77 " in text


def test_names_are_shown_without_control_characters() -> None:
    lines = lines_of(view_with(1), TopChoice(table=GROUPS))
    assert all(line.isprintable() for line in lines)
    assert any(r"g\x1b[31m\n\u202ered" in line for line in lines)


def test_screen_says_what_is_missing_without_metrics() -> None:
    assert "no broker has a metrics endpoint" in "\n".join(lines_of(view_with(1), TopChoice()))
    assert "no broker has a metrics endpoint" in "\n".join(
        lines_of(view_with(1), TopChoice(table=CLIENTS))
    )
    assert "metrics endpoint" not in "\n".join(
        lines_of(view_with(1, with_metrics=True), TopChoice(table=CLIENTS))
    )


def test_screen_shows_problems_and_the_error_of_the_last_sample() -> None:
    after = sample(1, {}, leaders={A0: -1})
    text = "\n".join(lines_of(view_of(sample(0, {}), after), TopChoice(), trouble="cannot connect"))
    assert "cannot connect; 1 partition offline: a-0" in text


def rates(screen: TopScreen, taken: TopSample) -> float | None:
    """The records per second that the screen shows after one more sample."""
    screen.take(taken, None)
    assert screen.view is not None
    return screen.view.totals.records_in_per_s


def test_screen_keeps_its_view_while_it_is_paused() -> None:
    screen = TopScreen()
    screen.take(sample(0, {A0: 0}), None)
    assert rates(screen, sample(1, {A0: 10})) == 10.0
    screen.press("p")
    assert rates(screen, sample(2, {A0: 30})) == 10.0
    screen.press("p")
    assert rates(screen, sample(3, {A0: 31})) == 1.0


def test_screen_before_two_samples_says_that_it_waits_or_why() -> None:
    screen = TopScreen()
    assert "taking two samples" in str(screen.drawn(120, 10))
    screen.take(None, "cannot connect")
    assert "cannot connect" in str(screen.drawn(120, 10))
