"""Each page of the console in a browser: both themes, wide and narrow, by keyboard, hostile names.

The pages are found by following links in the lively cluster, so a new page is tested by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.console.browser.asking import findings, focused
from tests.console.browser.chromium import NARROW, Watch
from tests.console.consoles import ConsoleProcess
from tests.console.crawling import FoundPage, found_pages, patterns

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TABS_MAX = 30
"""How often the tests press the tab key on a page."""
NO_PAGES = {"/"}
"""Routes that only redirect."""
OF_SCRIPTS = {"/requests/more"}
"""Routes that only a script of a page asks, after its button was pressed."""


@pytest.fixture(scope="module")
def pages(console: ConsoleProcess) -> list[FoundPage]:
    """The pages that links lead to."""
    return found_pages(console.origin, per_route=2)


def samples(pages: list[FoundPage], route: str) -> list[FoundPage]:
    """A page of each variant of a route, but each tab once, and one page with a hostile name."""
    found: dict[str, FoundPage] = {}
    for page in pages:
        if page.route == route and page.status == 200:
            tab = page.variant.partition("tab=")[2]
            found.setdefault("hostile" if page.is_hostile else tab or page.variant, page)
    return list(found.values())


@pytest.mark.parametrize("route", sorted(patterns().keys() - NO_PAGES))
def test_a_page_is_well_in_both_themes_wide_and_narrow_and_by_keyboard(
    route: str, pages: list[FoundPage], request: pytest.FixtureRequest
) -> None:
    visited = samples(pages, route)
    if not visited:
        pytest.skip(f"{route} is no page that a link leads to")
    page: Page = request.getfixturevalue("page")
    watch: Watch = request.getfixturevalue("watch")
    found: list[str] = []
    for each in visited:
        page.goto(each.target, wait_until="load")
        seen = findings(page, "marks", "structure", "overflow", "contrast")
        page.emulate_media(color_scheme="dark")
        seen += [f"dark {finding}" for finding in findings(page, "contrast")]
        if each is visited[0]:
            seen += tabbed(page)
        wide = page.viewport_size
        assert wide is not None
        page.set_viewport_size(NARROW)
        seen += [f"narrow {finding}" for finding in findings(page, "overflow", "targets")]
        page.set_viewport_size(wide)
        page.emulate_media(color_scheme="light")
        found += [f"{each.target[:200]}: {finding}" for finding in seen]
    assert not found, "\n".join(found)
    watch.check()


def tabbed(page: Page) -> list[str]:
    """What is wrong when the tab key goes through a page: focus that is not seen, or no way on."""
    found: list[str] = []
    places: list[str] = []
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        place = focused(page)
        if not place:  # past the last element
            break
        if place.startswith("!"):
            found.append(place)
        places.append(place)
    if "Skip to the content" not in (places or [""])[0]:
        found.append(f"the first stop of the tab key is {places[:1]}")
    if len(set(places)) < 3:
        found.append(f"the tab key stays on {places[-1:]}")
    return found


def test_no_link_leads_to_an_error(pages: list[FoundPage]) -> None:
    assert not [(page.status, page.target) for page in pages if page.status != 200]


def test_pages_name_each_route(pages: list[FoundPage]) -> None:
    """By a link, as the target of a form, or for a script."""
    reached = {page.route for page in pages}
    text = " ".join(page.text for page in pages)
    missing = [
        route
        for route in patterns().keys() - NO_PAGES - OF_SCRIPTS - reached
        if route.partition("{")[0] not in text
    ]
    assert not missing
