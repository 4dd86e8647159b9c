"""Where Chromium is, and a page that fails a test for what a visitor must never meet.

The tests drive Debian's chromium through playwright.  Selenium would need a second program, which
has to have the version of the browser; playwright talks to any recent Chromium, waits for elements
by itself, and tells of each request and each message of the console.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import (
        Browser,
        BrowserContext,
        ConsoleMessage,
        Dialog,
        Page,
        Request,
        Response,
        ViewportSize,
    )

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",  # containers have 64 MB there
    "--disable-gpu",
    "--no-first-run",
)
TIMEOUT_MS = 60_000.0
"""How long playwright waits for what a test expects; far longer than any page takes."""


def executable() -> str | None:
    """The path of Chromium: `KWIRE_CHROMIUM`, or the first of the usual names; None without it."""
    given = os.environ.get("KWIRE_CHROMIUM")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


def why_missing() -> str | None:
    """Why pages cannot be tested in a browser; None if they can."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    if executable() is None:
        return "there is no chromium (apt-get install chromium, or set KWIRE_CHROMIUM)"
    return None


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window.

    playwright has an asyncio loop in this thread until the block ends, so nothing else can run one.
    """
    from playwright.sync_api import sync_playwright

    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(),
            args=[*ARGUMENTS, *(["--no-sandbox"] if is_root else [])],
        )
        yield browser
        browser.close()


class Watch:
    """Collects what a page must not do while a test uses it.

    That is: messages of the browser's console that are errors or warnings, which violations of the
    content security policy are too; exceptions of scripts; dialogs; requests to another origin;
    and responses with a status from 500 on.
    """

    def __init__(self, page: Page, origin: str) -> None:
        """`origin` is that of the console, such as `http://127.0.0.1:8080`."""
        self.page = page
        self.origin = origin
        self.findings: list[str] = []
        self._expected: list[str] = []
        page.on("console", self._on_message)
        page.on("pageerror", lambda error: self.findings.append(f"exception: {error}"))
        page.on("request", self._on_request)
        page.on("response", self._on_response)
        page.on("dialog", self._on_dialog)

    def expect(self, text: str) -> None:
        """Let messages of the browser's console with this text pass: the test provokes them."""
        self._expected.append(text)

    def check(self) -> None:
        """Fail if the page did what it must not do."""
        assert not self.findings, "\n".join(self.findings)

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        if not any(text in message.text for text in self._expected):
            self.findings.append(f"{message.type} at {self.page.url}: {message.text}")

    def _on_request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme in ("data", "blob"):
            return
        if f"{url.scheme}://{url.netloc}" != self.origin:
            self.findings.append(f"{self.page.url} requests {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 500 and not any("the server" in text for text in self._expected):
            self.findings.append(f"{response.status} for {response.url}")

    def _on_dialog(self, dialog: Dialog) -> None:
        # A page of the console asks before a change; its test accepts the dialog by itself.
        if dialog.type == "alert":
            self.findings.append(f"alert: {dialog.message}")
        dialog.accept()


WIDE: ViewportSize = {"width": 1280, "height": 800}
NARROW: ViewportSize = {"width": 360, "height": 740}
"""The size of a small phone."""


@contextmanager
def watched_page(
    browser: Browser,
    origin: str,
    *,
    viewport: ViewportSize = WIDE,
    dark: bool = False,
    javascript: bool = True,
    prepare: Callable[[BrowserContext], None] = lambda _: None,
) -> Iterator[tuple[Page, Watch]]:
    """A page of a new profile, with its watch, which is checked at the end of the block."""
    context = browser.new_context(
        base_url=origin,
        viewport=viewport,
        color_scheme="dark" if dark else "light",
        java_script_enabled=javascript,
        reduced_motion="reduce",
        accept_downloads=True,
    )
    context.set_default_timeout(TIMEOUT_MS)
    prepare(context)
    page = context.new_page()
    watch = Watch(page, origin)
    try:
        yield page, watch
        watch.check()
    finally:
        context.close()


def save_screenshot(page: Page, path: Path, *, full: bool = False) -> None:
    """Write what the page shows as a PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=path, full_page=full, animations="disabled", caret="hide")
