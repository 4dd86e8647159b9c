"""Messages in the browser: search, the live tail, produce, and hostile records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kwire.testing import Kafka, Record
from tests.console import hostile
from tests.console.browser.asking import findings
from tests.console.browser.chromium import NARROW, Watch

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROWS_MAX = 500
"""Rows that a live tail shows; older ones go."""
MANY = 1_300


def test_search_by_an_expression_is_kept_in_the_url(page: Page) -> None:
    page.goto("/topics/orders")
    page.get_by_role("link", name="Messages").click()
    page.get_by_role("heading", name="orders").wait_for()
    page.get_by_text("Filter expression and formats").click()
    page.get_by_label("Where").fill('value.customer.city = "Lima" and value.id < 100')
    page.get_by_label("Start").select_option("oldest")
    page.get_by_role("button", name="Show messages").click()
    rows = page.locator("#rows tr")
    rows.first.wait_for()
    page.get_by_text("That is all.").wait_for()
    texts = rows.all_inner_texts()
    assert texts
    assert all("Lima" in text for text in texts)
    page.goto(page.url)
    page.get_by_text("That is all.").wait_for()
    assert rows.all_inner_texts() == texts
    assert page.get_by_label("Where").input_value().startswith("value.customer.city")


def test_mistake_in_an_expression_is_said_at_its_field(page: Page, watch: Watch) -> None:
    watch.expect("status of 400")
    page.goto("/topics/orders/messages?where=value.id+%3D%3D%3D+(")
    problem = page.get_by_role("alert")
    problem.wait_for()
    field = page.get_by_label("Where")
    assert field.get_attribute("aria-invalid") == "true"
    assert field.get_attribute("aria-describedby") == problem.get_attribute("id")


def test_tombstones_nulls_and_empty_values_look_different(page: Page) -> None:
    page.goto("/topics/customers/messages")
    assert page.locator("#rows").get_by_text("tombstone", exact=True).count() >= 4
    page.goto("/topics/pictures/messages")
    assert page.locator("#rows").get_by_text("null", exact=True).count() >= 2
    assert page.locator("#rows").get_by_text("empty", exact=True).count() >= 2
    assert "日本語のテキスト" in page.locator("#rows").inner_text()


def test_live_tail_shows_what_arrives_and_stays_small(page: Page, cluster: Kafka) -> None:
    topic = cluster.create_topic("tail-in-a-browser")
    page.goto(f"/topics/{topic}/messages?from=live")
    page.locator(".live[data-state=on]").wait_for()
    topic.seed([Record(payload, key=payload) for payload in hostile.PAYLOADS.values()])
    rows = page.locator("#rows tr")
    rows.nth(len(hostile.PAYLOADS) - 1).wait_for()
    assert not findings(page, "marks", "overflow", "structure")
    page.set_viewport_size(NARROW)
    assert not findings(page, "overflow")
    topic.seed({"number": number} for number in range(MANY))
    page.get_by_text(f'"number":{MANY - 1}').wait_for()
    arrived = f"{MANY + len(hostile.PAYLOADS):,}"
    page.locator("[data-count=seen]", has_text=arrived).wait_for()
    assert rows.count() <= ROWS_MAX
    page.get_by_role("button", name="Pause").click()
    topic.seed(["while it pauses"])
    page.locator("[data-count=seen]", has_text=f"{MANY + len(hostile.PAYLOADS) + 1:,}").wait_for()
    assert page.get_by_text("while it pauses").count() == 0
    page.get_by_role("button", name="Clear").click()
    assert rows.count() == 0


def test_record_is_produced_edited_copied_and_downloaded(page: Page, cluster: Kafka) -> None:
    topic = cluster.create_topic("made-in-a-browser")
    page.goto(f"/topics/{topic}/produce")
    page.locator("#key").fill("a key")
    page.locator("#value").fill('{"fruit": "<b>figs</b>"}')
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_role("status").first.wait_for()
    page.goto(f"/topics/{topic}/messages/0/0")
    assert "<b>figs</b>" in page.locator("pre").nth(1).inner_text()
    page.get_by_role("button", name="Send a copy").click()
    page.get_by_role("status").first.wait_for()
    topic.assert_holds([Record({"fruit": "<b>figs</b>"}, key="a key")] * 2)
    page.goto(f"/topics/{topic}/messages")
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download JSON lines").click()
    lines = Path(downloading.value.path()).read_text().splitlines()
    assert len(lines) == 2


def test_hostile_records_are_shown_whole_and_run_nothing(page: Page) -> None:
    page.goto("/topics/hostile/messages?limit=100")
    count = page.locator("#rows tr").count()
    assert count >= 2 * len(hostile.PAYLOADS)
    assert not findings(page, "marks", "overflow")
    page.set_viewport_size(NARROW)
    assert not findings(page, "overflow")
    found: list[str] = []
    pairs = 2 * len(hostile.PAYLOADS)  # each payload as it is, and then inside of JSON
    for offset in (*range(0, pairs, 4), *range(pairs, count)):
        page.goto(f"/topics/hostile/messages/0/{offset}")
        found += [f"{offset}: {each}" for each in findings(page, "marks", "overflow")]
    assert not found, "\n".join(found)
