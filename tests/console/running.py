"""A console for the tests of a file, and requests as its own pages send them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from tests.console import consoles
from tests.console.consoles import Answer, ConsoleProcess

FORM = "application/x-www-form-urlencoded"


class ConsoleOfTests(ConsoleProcess):
    """`kwire console` until the end of a `with` block, where it must end well."""

    def __init__(self, bootstrap: str, folder: Path, *options: str) -> None:
        """`folder` gets the log; `options` are further ones of `kwire console`."""
        super().__init__(bootstrap, folder / "console.log", *options)

    def __exit__(self, *_: object) -> None:
        self.finish()

    @property
    def address(self) -> str:
        """`127.0.0.1:PORT`, whatever host it listens on."""
        return f"127.0.0.1:{urlsplit(self.url).port}"


def ask(
    console: ConsoleOfTests,
    path: str,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send a GET, or a POST as a page of the console does.  Redirects are not followed.

    `headers` replace those of a browser.
    """
    origin = f"http://{console.address}"
    if form is None:
        return consoles.ask(origin, path, headers=headers)
    sent = {"Origin": origin, "Content-Type": FORM, **(headers or {})}
    return consoles.ask(origin, path, "POST", sent, urlencode(form).encode())
