"""The pictures in docs/console.md: `make console-pictures` writes them.

In other runs the test only looks whether the page names the pictures that there are, and whether
these are small.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import pytest

from kwire.testing import Kafka
from tests.console.browser.chromium import NARROW, WIDE, launched, save_screenshot, watched_page
from tests.console.conftest import control_of
from tests.console.consoles import ConsoleProcess
from tests.console.lively import GROUPS, SETTINGS, lively

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "console"
PAGE = ROOT / "docs" / "console.md"
SIZE_BYTES_MAX = 150_000
COUNT_MAX = 10
TRAFFIC_S = float(os.environ.get("KWIRE_CONSOLE_PICTURES") or 240)
"""How long the cluster has traffic before the first picture, so that the plots have a form."""
IS_WRITING = "KWIRE_CONSOLE_PICTURES" in os.environ
EXPRESSION = 'value.customer.city in ("Lima", "Osaka") and value.paid = true'


class Picture(NamedTuple):
    """One picture: the page, how it looks, and what is done on it first."""

    target: str
    dark: bool = False
    viewport: ViewportSize = WIDE
    prepare: Callable[[Page], None] = lambda _: None


def trace_requests(page: Page) -> None:
    """Let the page of requests record some."""
    page.get_by_role("button", name="Record requests").click()
    page.locator("#requests tr").nth(12).wait_for()


PICTURES: dict[str, Picture] = {
    "topics": Picture("/topics"),
    "messages": Picture("/topics/orders/messages?where=" + quote(EXPRESSION), dark=True),
    "group": Picture(f"/groups/one?id={GROUPS.consumer}"),
    "streams": Picture(f"/groups/one?id={GROUPS.streams}&tab=members", dark=True),
    "brokers": Picture("/brokers"),
    "configs": Picture("/topics/page-views/configs?changed=yes"),
    "requests": Picture("/requests", dark=True, prepare=trace_requests),
    "control": Picture("/control"),
    "phone": Picture(f"/groups/one?id={GROUPS.consumer}", dark=True, viewport=NARROW),
}
"""By the name of the file."""


def test_page_shows_all_pictures_and_each_is_small() -> None:
    shown = set(re.findall(r"\(console/([\w-]+)\.png\)", PAGE.read_text()))
    files = {file.stem: file for file in FOLDER.glob("*.png")}
    assert shown == files.keys() == PICTURES.keys()
    assert len(files) <= COUNT_MAX
    for file in files.values():
        assert file.stat().st_size <= SIZE_BYTES_MAX, file


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.skipif(not IS_WRITING, reason="make console-pictures writes them")
def test_pictures_are_written(tmp_path: Path) -> None:
    with Kafka(SETTINGS) as kafka, lively(kafka.bootstrap, traffic=True, tame=True):
        console = ConsoleProcess(kafka.bootstrap, tmp_path, control_of(kafka))
        console.start()
        time.sleep(TRAFFIC_S)
        with launched() as browser:
            for name, picture in PICTURES.items():
                with watched_page(
                    browser, console.origin, viewport=picture.viewport, dark=picture.dark
                ) as (page, _):
                    page.goto(picture.target, wait_until="load")
                    picture.prepare(page)
                    save_screenshot(page, FOLDER / f"{name}.png")
        console.finish()
