"""The built site: without warnings and dead links, and with short ways to what newcomers ask.

The build takes 36 to 45 s of processor time, so these tests are `long`; test_navigation.py looks
at the pages that it is built from.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest

from tests.console.browser.chromium import NARROW, WIDE, launched, watched_page, why_missing

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
CLICKS_MAX = 2
SELF_CONTAINED = ("script", "link", "img", "iframe", "source")


class Parsed(NamedTuple):
    """What a page of the site has."""

    anchors: frozenset[str]
    links: tuple[str, ...]
    loads: tuple[str, ...]
    """What the page loads by itself: scripts, styles, images."""
    text: str


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value is not None}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in SELF_CONTAINED:
            target = given.get("src") or given.get("href")
            if target and given.get("rel") not in ("next", "prev", "index", "search"):
                self.loads.append(target)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@cache
def parsed(path: Path) -> Parsed:
    reader = _Reader()
    reader.feed(path.read_text("utf-8"))
    return Parsed(
        frozenset(reader.anchors),
        tuple(reader.links),
        tuple(reader.loads),
        " ".join("".join(reader.text).split()),
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    folder = tmp_path_factory.mktemp("built") / "site"
    command = [sys.executable, "-m", "tools.website", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def pages(site: Path) -> Iterator[Path]:
    yield from sorted(site.rglob("*.html"))


def test_no_link_of_the_site_is_dead(site: Path) -> None:
    dead = [
        (page.relative_to(site).as_posix(), link)
        for page in pages(site)
        for link in (*parsed(page).links, *parsed(page).loads)
        if is_dead(page, link)
    ]
    assert len(list(pages(site))) > 150
    assert not dead, dead


def is_dead(page: Path, link: str) -> bool:
    """Whether a link to a place on the site names a file or an anchor that is not there."""
    url = urlsplit(link)
    if url.scheme or url.netloc:
        return False
    target = (page.parent / unquote(url.path)).resolve() if url.path else page
    if not target.is_file():
        return True
    return bool(url.fragment) and unquote(url.fragment) not in parsed(target).anchors


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    for page in pages(site):
        assert not [load for load in parsed(page).loads if urlsplit(load).netloc], page
    for style in site.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import )['\"]?(?:https?:)?//[^)]*", style.read_text("utf-8"))
        assert not found, style


@pytest.mark.parametrize(
    ("question", "page", "answer"),
    [
        ("How do I start a broker in my pytest suite?", "testing", "kafka.bootstrap"),
        ("Does it work with Spark?", "spark", "works with kwire unchanged"),
        ("What differs from Apache Kafka?", "differences", "Apache Kafka answers"),
        ("How do I replace bitnami/kafka in my compose file?", "bitnami", "image: kwire"),
        ("How do I secure it?", "security", "kwire serve --secure"),
        ("How do I move my data from Apache Kafka?", "moving", "Stop Apache Kafka and start kwire"),
        ("Why is there no free-threaded broker?", "decisions/0034-brokers-use-the-cores", "three"),
        ("How do I advance the clock over HTTP?", "control", "advance_ms"),
    ],
)
def test_question_of_a_newcomer_is_answered_within_two_clicks(
    site: Path, question: str, page: str, answer: str
) -> None:
    start = site / "index.html"
    target = site / f"{page}.html"
    assert answer in parsed(target).text, question
    reached = {start}
    for _ in range(CLICKS_MAX):
        reached |= {
            (source.parent / urlsplit(link).path).resolve()
            for source in reached
            for link in parsed(source).links
            if urlsplit(link).path.endswith(".html") and not urlsplit(link).netloc
        }
    assert target in reached, question


def test_each_page_is_in_the_text_for_language_models(site: Path) -> None:
    index = (site / "llms.txt").read_text()
    full = (site / "llms-full.txt").read_text()
    listed = re.findall(r"\]\(([^)]+\.md)\)", index)
    assert len(listed) > 30
    for name in listed:
        if name.startswith("python/"):
            continue
        text = (site / posixpath.normpath(name)).read_text()
        assert text.splitlines()[0] in full, name
    assert "{toctree}" not in full


def test_python_api_has_the_docstrings(site: Path) -> None:
    assert "wait_until_consumed" in parsed(site / "python/testing.html").text
    assert "create_topic" in parsed(site / "python/client.html").text


@pytest.mark.browser
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("secure", ["Secure a broker", "TLS, passwords, rules, quotas and tokens"]),
        ("bitnami", ["From Bitnami's images"]),
        ("lost-reply", ["Test with a real broker", "The HTTP control"]),
        ("wait_until_consumed", ["wait_until_consumed", "kwire.testing"]),
    ],
)
def test_search_finds_pages_without_a_server(site: Path, words: str, found: list[str]) -> None:
    if why := why_missing():
        pytest.skip(why)
    with launched() as browser, watched_page(browser, "file://") as (page, _):
        page.goto((site / "index.html").as_uri())
        page.get_by_role("textbox", name="Search").first.fill(words)
        page.keyboard.press("Enter")
        page.locator("#search-results li").first.wait_for()
        text = page.locator("#search-results").inner_text()
        assert not [title for title in found if title not in text], text


@pytest.mark.browser
def test_search_lists_the_page_that_has_the_word_in_its_title_first(site: Path) -> None:
    if why := why_missing():
        pytest.skip(why)
    with launched() as browser, watched_page(browser, "file://") as (page, _):
        for word, title in (("secure", "Secure a broker"), ("metrics", "Metrics")):
            page.goto(f"{(site / 'search.html').as_uri()}?q={word}")
            first = page.locator("#search-results li").first
            assert first.locator("a").inner_text() == title


@pytest.mark.browser
def test_pages_fit_wide_and_narrow_screens_in_light_and_dark(site: Path) -> None:
    if why := why_missing():
        pytest.skip(why)
    with launched() as browser:
        for viewport in (WIDE, NARROW):
            for dark in (False, True):
                with watched_page(browser, "file://", viewport=viewport, dark=dark) as (page, _):
                    for name in ("index", "tutorial", "architecture", "testing", "settings"):
                        page.goto((site / f"{name}.html").as_uri())
                        width = page.evaluate("document.documentElement.scrollWidth")
                        assert width <= viewport["width"], (name, viewport)
