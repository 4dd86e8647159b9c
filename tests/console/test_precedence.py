"""Pages that go before the work beside them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kwire.console.precedence import LOOK_AGAIN_S, QUIET_S, WAIT_S_MAX, PagesFirst


class Time:
    """A clock that a pause moves on."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pauses: list[float] = []
        self.on_pause: Callable[[], None] = lambda: None

    def clock(self) -> float:
        return self.now_s

    def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s
        self.on_pause()


def test_work_does_not_wait_when_no_page_was_made() -> None:
    time = Time()
    PagesFirst(time.clock, time.sleep).wait()
    assert time.pauses == []


def test_work_begins_a_moment_after_the_last_page_is_made() -> None:
    time = Time()
    pages = PagesFirst(time.clock, time.sleep)
    page = pages.page()
    page.__enter__()

    def end_of_page() -> None:
        if len(time.pauses) == 3:
            page.__exit__(None, None, None)

    time.on_pause = end_of_page
    pages.wait()
    assert time.now_s == pytest.approx(100.0 + 3 * LOOK_AGAIN_S + QUIET_S)


def test_work_goes_on_after_a_while_when_pages_are_made_all_the_time() -> None:
    time = Time()
    pages = PagesFirst(time.clock, time.sleep)
    with pages.page():
        pages.wait()
    assert WAIT_S_MAX <= time.now_s - 100.0 < WAIT_S_MAX + 2 * LOOK_AGAIN_S


def test_page_that_fails_is_made_no_longer() -> None:
    time = Time()
    pages = PagesFirst(time.clock, time.sleep)
    try:
        with pages.page():
            raise ZeroDivisionError
    except ZeroDivisionError:
        time.now_s += QUIET_S
    pages.wait()
    assert time.pauses == []
