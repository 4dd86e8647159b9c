"""Each `pip install` line that a user may read works from a clone, without a release of kwire."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from tests.install_lines import ROOT, copy_sources, install_lines, pages

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FROM_CLONE = re.compile(r"(?:\.|\.\./kwire)(?:\[([\w,]+)\])?")
"""A requirement that is a folder: the clone, or the clone beside the current folder."""
NAME = re.compile(r"[\w.-]+")
BY_NAME = re.compile(
    r"(?:uvx|uv tool run|uv tool install|uv add|uv pip install|pipx install|pipx run|poetry add)"
    r" (?:--?[\w-]+ )*'?kwire\b"
)
"""Commands beside pip's that take kwire from an index."""


def known_packages() -> set[str]:
    """Names of packages that kwire itself, or one of its extras, takes from an index."""
    required = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    return {NAME.findall(each)[0] for each in required} - {"kwire"}


def test_search_finds_the_install_lines_of_the_pages() -> None:
    assert {line.page for line in install_lines()} >= {
        "README.md",
        "docs/commands.md",
        "docs/first-test.md",
        "docs/other-languages.md",
        "docs/pipelines.md",
        "docs/testing.md",
        "kwire/cli/pipeline/__init__.py",
    }


def test_install_lines_name_folders_or_published_packages_and_extras_that_exist() -> None:
    for line in install_lines():
        for requirement in line.requirements:
            if match := FROM_CLONE.fullmatch(requirement):
                extras = match[1].split(",") if match[1] else []
                assert set(extras) <= PROJECT["optional-dependencies"].keys(), line
            else:
                assert requirement in known_packages(), (
                    f"{line.page}: pip install {line.text}: {requirement} is not on an index"
                )


def test_no_page_takes_kwire_by_name_from_an_index() -> None:
    for page in pages():
        for line in BY_NAME.findall(page.read_text()):
            pytest.fail(f"{page.relative_to(ROOT)}: {line}: kwire is not on an index yet")


@pytest.mark.slow
@pytest.mark.long
def test_pip_takes_each_install_line_as_written(tmp_path: Path) -> None:
    """In a clone, or beside it; without the dependencies, of which Spark is half a gigabyte.

    tests/testing/test_first_test.py installs one of them with all that it needs.
    """
    copy_sources(tmp_path / "kwire")
    (tmp_path / "beside").mkdir()
    for text in {line.text for line in install_lines()}:
        folder = tmp_path / ("beside" if "../kwire" in text else "kwire")
        command = f"{sys.executable} -m pip install --dry-run --ignore-installed --no-deps {text}"
        done = subprocess.run(
            ["sh", "-ec", command], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, command + done.stdout + done.stderr
        assert "does not provide the extra" not in done.stderr, done.stderr
        assert "Would install" in done.stdout, done.stdout
