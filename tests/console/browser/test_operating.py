"""Plots, requests as they arrive, faults, and a reset of offsets, in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.client.cluster import TopicPartition
from kwire.client.groups import commit_offsets, fetch_offsets
from kwire.testing import Kafka
from kwire.testing.topics import connected
from tests.console import hostile
from tests.console.browser.asking import findings
from tests.console.lively import GROUPS

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_plot_of_lag_is_drawn_and_read_by_keyboard_and_as_a_table(page: Page) -> None:
    page.goto(f"/groups/one?id={GROUPS.consumer}")
    plot = page.locator("figure[data-plot]").first
    plot.locator("svg .plot-line, svg .plot-dot").first.wait_for(state="attached")
    plot.focus()
    page.keyboard.press("ArrowLeft")
    said = plot.locator("[role=status]").inner_text()
    assert "orders" in said
    assert "total" in said
    plot.get_by_text("As a table").click()
    table = plot.get_by_role("table")
    assert table.get_by_role("columnheader").all_inner_texts()[:2] == ["Time", "total"]
    assert table.get_by_role("row").count() >= 2


def test_requests_are_shown_as_they_arrive_until_the_recording_ends(page: Page) -> None:
    page.goto("/requests")
    page.get_by_label("API").select_option("StreamsGroupHeartbeat")
    page.get_by_role("button", name="Record requests").click()
    rows = page.locator("#requests tr")
    rows.nth(5).wait_for()
    text = page.locator("#requests").inner_text()
    assert "StreamsGroupHeartbeat" in text
    assert "ConsumerGroupHeartbeat" not in text
    page.locator("#requests").get_by_text(hostile.SCRIPT[:20]).first.wait_for()
    assert not findings(page, "marks", "overflow")
    page.get_by_role("button", name="End the recording").click()
    page.get_by_role("button", name="Record requests").wait_for()


def test_fault_is_switched_on_and_off(page: Page) -> None:
    page.goto("/control")
    page.get_by_label("API").select_option("Produce")
    page.get_by_label("Client id").fill(hostile.SCRIPT)
    page.get_by_label("Delay in ms").fill("50")
    page.get_by_role("button", name="Switch on", exact=True).click()
    row = page.get_by_role("region", name="Faults").locator("tbody tr")
    row.get_by_text("50").first.wait_for()
    assert hostile.SCRIPT[:30] in row.inner_text()
    assert not findings(page, "marks")
    page.get_by_role("button", name="Switch off", exact=True).click()
    page.get_by_text("No fault is switched on.").wait_for()


def test_offsets_are_reset_after_a_preview(page: Page, cluster: Kafka) -> None:
    group = f"reset {hostile.IMAGE}"
    place = TopicPartition("orders", 2)
    with connected(cluster.bootstrap) as client:
        commit_offsets(client, group, {place: 50})
    page.goto("/groups?q=reset")
    page.get_by_role("link", name=group).click()
    page.get_by_role("link", name="Reset or delete").click()
    page.get_by_label("To", exact=True).select_option("earliest")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="Preview of the reset").wait_for()
    assert "50" in page.get_by_role("region", name="New offsets").inner_text()
    with connected(cluster.bootstrap) as client:
        assert fetch_offsets(client, group)[place].offset == 50
    page.get_by_role("button", name="Reset these offsets").click()
    page.get_by_role("status").first.wait_for()
    with connected(cluster.bootstrap) as client:
        assert fetch_offsets(client, group)[place].offset == 0
    page.get_by_role("link", name="Reset or delete").click()
    page.get_by_label("Delete it, with its offsets").check()
    page.get_by_role("button", name="Delete the group").click()
    page.wait_for_url("**/groups?notice=*")
    assert group not in page.locator("tbody").inner_text()
