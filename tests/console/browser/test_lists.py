"""Lists in the browser: filter, sort and turn pages by keyboard, the themes, and no JavaScript."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.browser.chromium import NARROW, watched_page
from tests.console.consoles import ConsoleProcess
from tests.console.lively import TOPICS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def names(page: Page) -> list[str]:
    """The names in the first column of the table."""
    cells = page.get_by_role("rowheader").all_inner_texts()
    return [cell.split("\n")[0].strip() for cell in cells]


def choose_theme(page: Page, theme: str) -> None:
    """Choose a theme in the menu; returns when the page is there in this theme."""
    with page.expect_navigation(wait_until="load"):
        page.get_by_label("Theme").select_option(theme)
    assert page.evaluate("() => document.documentElement.dataset.theme") == theme


def is_focused(page: Page, selector: str) -> bool:
    """Whether the first element of a selector has the focus."""
    found: bool = page.locator(selector).first.evaluate("each => each === document.activeElement")
    return found


def test_list_of_topics_has_all_topics_and_their_pages_by_enter(page: Page) -> None:
    page.goto("/")
    assert page.url.endswith("/topics")
    shown = names(page)
    assert {"orders", "payments", "customers", "page-views", "hostile"} <= set(shown)
    assert "__consumer_offsets" not in shown
    page.get_by_role("link", name="orders", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders")
    assert page.get_by_role("heading", level=1).inner_text() == "orders"


def test_filter_narrows_the_list_while_it_is_typed_and_keeps_the_focus(page: Page) -> None:
    page.goto("/topics")
    page.keyboard.press("/")
    assert is_focused(page, "input[type=search]")
    page.keyboard.type("PAY")
    page.wait_for_url("**/topics?q=PAY")
    page.wait_for_function("document.querySelectorAll('tbody tr').length === 1")
    assert names(page) == ["payments"]
    assert is_focused(page, "input[type=search]")
    page.keyboard.type("<script>")
    page.get_by_text("Show all topics").wait_for()
    page.get_by_text("Show all topics").click()
    page.wait_for_url("**/topics")
    assert len(names(page)) >= len(TOPICS)


def test_list_is_sorted_by_a_column_and_back_by_keyboard(page: Page) -> None:
    page.goto("/topics")
    head = page.get_by_role("columnheader", name="Partitions")
    for wanted in ("descending", "ascending"):
        head.get_by_role("link").focus()
        with page.expect_navigation(wait_until="load"):
            page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == wanted
    page.goto("/topics?sort=-partitions")
    assert names(page)[0] == "page-views"


def test_theme_that_is_chosen_stays_on_other_pages(page: Page) -> None:
    page.goto("/topics")
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    choose_theme(page, "dark")
    assert page.url.endswith("/topics")
    assert page.evaluate(background) != light
    page.goto("/topics/orders")
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    page.emulate_media(color_scheme="dark")
    choose_theme(page, "light")
    assert page.evaluate(background) == light


def test_list_is_filtered_and_the_theme_chosen_without_javascript(
    browser: Browser, console: ConsoleProcess
) -> None:
    with watched_page(browser, console.origin, javascript=False) as (page, _):
        page.goto("/topics")
        page.locator("input[type=search]").fill("orders")
        page.get_by_role("button", name="Filter").click()
        page.wait_for_url("**/topics?q=orders*")
        assert names(page) == ["orders"]
        page.locator("#theme").select_option("dark")
        with page.expect_navigation(wait_until="load"):
            page.get_by_role("button", name="Set theme").click()
        assert page.locator("html").get_attribute("data-theme") == "dark"
        assert names(page) == ["orders"]


def test_menu_is_above_the_page_on_a_phone_and_leads_to_each_page(
    browser: Browser, console: ConsoleProcess
) -> None:
    with watched_page(browser, console.origin, viewport=NARROW) as (page, _):
        page.goto("/topics")
        menu = page.get_by_role("navigation", name="Pages", exact=True)
        box, content = menu.bounding_box(), page.locator("main").bounding_box()
        assert box is not None
        assert content is not None
        assert box["y"] + box["height"] <= content["y"] + 1
        labels = menu.get_by_role("link").all_inner_texts()
        assert labels
        for label in labels:
            with page.expect_navigation(wait_until="load"):
                menu.get_by_role("link", name=label, exact=True).click()
            current = menu.locator("[aria-current=page]")
            assert current.inner_text() == label
