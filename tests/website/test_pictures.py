"""The pictures in docs/pictures: `make docs-pictures` writes them.

In other runs the tests only look whether pages show the pictures that there are, and whether these
are small and load nothing.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from kwire.cli.operating.live.choice import TopChoice
from kwire.cli.operating.live.screen import drawn
from kwire.cli.operating.live.taking import SampleTaker
from kwire.cli.operating.live.view import view_of
from kwire.client.cluster import Cluster
from kwire.testing import Kafka
from tests.console.browser.chromium import launched, save_screenshot, watched_page
from tests.console.lively import SETTINGS, lively

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "pictures"
SIZE_BYTES_MAX = 150_000
TRAFFIC_S = 20
"""How long the cluster has traffic before the pictures, so that there is something to see."""
SECONDS = 5
COLUMNS, LINES = 124, 40
IS_WRITING = "KWIRE_DOCS_PICTURES" in os.environ
AUDIT: ViewportSize = {"width": 1100, "height": 900}


def test_pages_show_all_pictures_and_each_is_small() -> None:
    text = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    shown = set(re.findall(r"\(pictures/([\w.-]+)\)", text))
    files = {file.name: file for file in FOLDER.iterdir()}
    assert shown == files.keys() == {"top.svg", "audit.png"}
    for file in files.values():
        assert file.stat().st_size <= SIZE_BYTES_MAX, file
    picture = files["top.svg"].read_text()
    assert "p99" in picture, "it was written of a broker with metrics"
    assert not re.findall(r"(?:url\(|href=)['\"]?https?:", picture)


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.skipif(not IS_WRITING, reason="make docs-pictures writes them")
def test_pictures_are_written(tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    with Kafka(SETTINGS) as kafka, lively(kafka.bootstrap, traffic=True, tame=True):
        time.sleep(TRAFFIC_S)
        (FOLDER / "top.svg").write_text(top_screen(kafka.bootstrap))
        words = ["pipeline", "audit", "orders", "payments", "page-views", "--html", str(page)]
        command = [sys.executable, "-m", "kwire.cli", *words, "-b", kafka.bootstrap]
        subprocess.run(command, check=False)  # 1: it finds something, which is to be seen
    with launched() as browser, watched_page(browser, "file://", viewport=AUDIT) as (shown, _):
        shown.goto(page.as_uri())
        save_screenshot(shown, FOLDER / "audit.png")


def top_screen(bootstrap: str) -> str:
    """The screen of `kwire top` as SVG, in the fonts of the reader's system."""
    with Cluster(bootstrap) as cluster:
        taker = SampleTaker(cluster, {})
        before = taker.take()
        time.sleep(SECONDS)
        view = view_of(before, taker.take())
    console = Console(record=True, width=COLUMNS, force_terminal=True, file=io.StringIO())
    console.print(drawn(view, TopChoice(), COLUMNS, LINES))
    without_fonts = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(
        title="kwire top", code_format=without_fonts.replace("Fira Code, monospace", "monospace")
    )
