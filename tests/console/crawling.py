"""Finds the pages of a console by following links, as a visitor would, one after the other."""

from __future__ import annotations

import http.client
import re
from collections import deque
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urljoin, urlsplit

from kwire.console.app import site_pages
from tests.console.lively import GROUPS

TIMEOUT_S = 60.0
LENGTH_MAX = 3_000
"""Characters of a link that is followed."""
HOSTILE_SIGNS = ("%3C", "%E2%80%AE", "%7B%7B", "hostile")
"""Parts of the hostile names of the lively cluster, as they are in URLs."""
STEP = re.compile(r"{(\w+)(?::(\w+))?}")


class Links(HTMLParser):
    """Collects the links of a page."""

    def __init__(self, base: str) -> None:
        """`base` is the path of the page."""
        super().__init__()
        self._base = base
        self.found: list[str] = []
        """Paths with queries, of the console alone."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        link = given.get("href")
        if tag != "a" or link is None or "download" in given:
            return
        url = urlsplit(urljoin(self._base, link))
        assert not url.netloc, f"{self._base} has a link to {link}"
        assert not url.scheme, f"{self._base} has a link to {link}"
        assert "amp;" not in url.query, f"{self._base} escapes the link to {link} twice"
        self.found.append(url.path + (f"?{url.query}" if url.query else ""))


@dataclass(frozen=True)
class FoundPage:
    """A page that a link leads to."""

    target: str
    """Path and query."""
    route: str
    """The path that the console declares, such as `/topics/{topic}`."""
    variant: str
    """What of the query makes it another page: its tab, the type of groups, a group."""
    text: str
    """The page as HTML."""
    status: int
    is_hostile: bool
    """Whether its path or query has a hostile name."""


@cache
def patterns() -> dict[str, re.Pattern[str]]:
    """A regular expression for each route of pages."""
    found: dict[str, re.Pattern[str]] = {}
    for page in site_pages():
        if "GET" not in page.methods:
            continue
        pattern, end = "", 0
        for step in STEP.finditer(page.path):
            pattern += re.escape(page.path[end : step.start()])
            pattern += ".+" if step[2] == "path" else "[^/]+"
            end = step.end()
        found[page.path] = re.compile(pattern + re.escape(page.path[end:]))
    return found


def route_of(target: str) -> str:
    """The route of a page's path; empty if there is none."""
    path = target.partition("?")[0]
    if path in patterns():
        return path
    return next((route for route, pattern in patterns().items() if pattern.fullmatch(path)), "")


def variant_of(target: str) -> str:
    """The parts of a query that make another page: a tab, a type, a group with members."""
    query = parse_qsl(target.partition("?")[2])
    return "&".join(
        f"{name}={value}" for name, value in query if name in ("tab", "type") or value in GROUPS
    )


def html_of(origin: str, target: str) -> tuple[int, str, str]:
    """Status, where a redirect leads, and the HTML of a page; empty for what is no HTML.

    What is no page may never end, as a live tail, so that it is not read.
    """
    url = urlsplit(origin)
    assert url.hostname is not None
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
        kind = response.getheader("content-type", "")
        text = response.read().decode() if kind.startswith("text/html") else ""
        return response.status, response.getheader("location", ""), text
    finally:
        connection.close()


def found_pages(origin: str, *, per_route: int = 3) -> list[FoundPage]:
    """Pages that links lead to from the start page on, some of each route.

    Hostile and other pages of a route are counted on their own, and so are pages with and without a
    query, and the variants of a page.
    """
    waiting = deque(["/"])
    seen = {"/"}
    counts: dict[tuple[str, str, bool, bool], int] = {}
    found: list[FoundPage] = []
    while waiting:
        target = waiting.popleft()
        route = route_of(target)
        is_hostile = any(sign in target for sign in HOSTILE_SIGNS)
        variant = variant_of(target)
        key = route, variant, is_hostile, "?" in target
        if counts.get(key, 0) >= per_route:
            continue
        counts[key] = counts.get(key, 0) + 1
        status, location, text = html_of(origin, target)
        links = Links(target)
        if location:
            links.found.append(urljoin(target, location))
        elif text:
            links.feed(text)
            found.append(FoundPage(target, route, variant, text, status, is_hostile))
        for link in links.found:
            if link not in seen and len(link) < LENGTH_MAX and not link.startswith("/static/"):
                seen.add(link)
                waiting.append(link)
    return found
