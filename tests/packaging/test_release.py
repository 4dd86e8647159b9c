"""A release: its version, its notes, its metadata and the wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest

import kwire
from tools.dist import absolute, name_repository
from tools.release_notes import main as print_notes
from tools.release_notes import section

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://example.org/owner/kwire"
PYPROJECT = (ROOT / "pyproject.toml").read_text()


def test_installed_version_is_the_one_of_the_package() -> None:
    assert metadata("kwire")["Version"] == kwire.__version__
    assert "version" in tomllib.loads(PYPROJECT)["project"]["dynamic"]


def test_metadata_name_no_address_until_a_release_names_it() -> None:
    assert metadata("kwire").get_all("Project-URL") is None
    assert "urls" not in tomllib.loads(PYPROJECT)["project"]


def test_release_writes_the_address_into_metadata_and_links(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    name_repository(tmp_path, REPOSITORY)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Issues"] == f"{REPOSITORY}/issues"
    assert project["dependencies"], "the table of addresses must not take what follows it"
    readme = (tmp_path / "README.md").read_text()
    assert "\n`pip install kwire` installs" in readme
    assert "`pipx install kwire`" in readme
    for link in re.findall(r"\]\(([^)\s]+)\)", readme):
        assert link.startswith(("https://", "#")), link


@pytest.mark.parametrize(
    ("link", "written"),
    [
        ("[a](docs/a.md#b)", f"[a]({REPOSITORY}/blob/HEAD/docs/a.md#b)"),
        ("[a](#b)", "[a](#b)"),
        ("[a](https://example.com/x)", "[a](https://example.com/x)"),
    ],
)
def test_links_to_files_become_absolute(link: str, written: str) -> None:
    assert absolute(link, REPOSITORY) == written


def test_notes_are_the_section_of_the_version_alone() -> None:
    changelog = "# Changes\n\n## 1.2.0, today\n\nnew\n\n## 1.2.0rc1, before\n\n### Fixed\n\nold\n"
    assert section(changelog, "1.2.0") == "new"
    assert section(changelog, "1.2.0rc1") == "### Fixed\n\nold"
    assert section(changelog, "1.2") == ""


def test_notes_for_a_tag_of_another_version_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert print_notes(["v9.9.9"]) == 1
    assert f"v9.9.9 is not v{kwire.__version__}" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.slow
def test_wheel_is_built_and_works_where_no_clone_is() -> None:
    """The other ways of tools/check_wheel.py run in the nightly workflow: `make dist-check`."""
    make = ["make", "dist", "dist-check", f"PYTHONS={sys.executable}", "ARGS=pip testing"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
