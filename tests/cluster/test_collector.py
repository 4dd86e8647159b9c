"""The collector is paused within a block, and afterwards as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from kwire.cluster.membership.collector import collector_paused


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    (gc.enable if was_enabled else gc.disable)()


def test_collector_is_off_within_the_block() -> None:
    gc.enable()
    before = [each["collections"] for each in gc.get_stats()]
    with collector_paused():
        kept: list[list[int]] = [[] for _ in range(50 * gc.get_threshold()[0])]
        assert [each["collections"] for each in gc.get_stats()] == before
    assert gc.isenabled()
    kept += [[] for _ in range(2 * gc.get_threshold()[0])]
    assert [each["collections"] for each in gc.get_stats()] != before


def test_collector_is_on_again_after_an_exception() -> None:
    gc.enable()
    with pytest.raises(ValueError, match="within"), collector_paused():
        raise ValueError("within")
    assert gc.isenabled()


def test_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collector_paused(), collector_paused():
        assert not gc.isenabled()
    assert not gc.isenabled()
