"""Asks a page what is wrong with it, by the functions in `checks.js`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHECKS = Path(__file__).with_name("checks.js").read_text()


def findings(page: Page, *names: str) -> list[str]:
    """What these functions find, each finding with the function's name."""
    result: list[str] = page.evaluate(
        "names => { const checks = " + CHECKS.strip() + "; "
        "return names.flatMap(name => checks[name]().map(finding => `${name}: ${finding}`)); }",
        list(names),
    )
    return result


def focused(page: Page) -> str:
    """The focused element, or what is wrong with how it is seen, which begins with `!`."""
    result: str = page.evaluate(f"() => ({CHECKS.strip()}).focused()")
    return result
