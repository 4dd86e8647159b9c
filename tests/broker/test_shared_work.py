"""The work that requests share is done once, and a failure of one does not stop the rest."""

from __future__ import annotations

import logging
from functools import partial

import pytest

from kwire.broker.shared_work import SharedWork


def test_work_is_done_in_order_when_the_group_ends() -> None:
    work, done = SharedWork(), list[str]()
    work.begin()
    for name in ("first", "second"):
        work.add(partial(done.append, name))
    assert (work.is_open, done) == (True, [])
    work.finish()
    assert (work.is_open, done) == (False, ["first", "second"])
    work.begin()
    work.finish()
    assert done == ["first", "second"], "each is done once"


def test_work_that_fails_is_logged_and_the_rest_is_done(caplog: pytest.LogCaptureFixture) -> None:
    work, done = SharedWork(), list[str]()

    def fail() -> None:
        raise RuntimeError("a defect")

    work.begin()
    work.add(fail)
    work.add(lambda: done.append("rest"))
    with caplog.at_level(logging.ERROR, "kwire.shared_work"):
        work.finish()
    assert done == ["rest"]
    assert "a defect" in caplog.text


def test_work_outside_of_a_group_is_refused() -> None:
    with pytest.raises(AssertionError):
        SharedWork().add(lambda: None)
