"""`python -m tools.website [FOLDER]` builds the site into FOLDER, by default build/site."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.website.llms import write_texts
from tools.website.navigation import Navigation
from tools.website.staging import stage

ROOT: Final = Path(__file__).resolve().parents[2]


class SiteFolderError(Exception):
    """The folder for the site has something else in it."""


def emptied(site: Path) -> Path:
    """Remove an earlier site, or raise SiteFolderError if the folder is something else."""
    if site.exists() and any(site.iterdir()) and not (site / "llms.txt").exists():
        raise SiteFolderError(f"{site} has other files than a site: name a new folder")
    shutil.rmtree(site, ignore_errors=True)
    return site


def build(site: Path) -> int:
    """Build the site into a folder, in place of an earlier one.

    Returns the exit status of Sphinx, which is not 0 after a warning.  Raises SiteFolderError, and
    ValueError if a page links to a file that does not exist.
    """
    from sphinx.cmd.build import build_main

    navigation = Navigation(ROOT)
    emptied(site)
    with tempfile.TemporaryDirectory() as temporary:
        pages, doctrees = Path(temporary, "pages"), Path(temporary, "doctrees")
        stage(navigation, pages)
        options = ["--quiet", "--fail-on-warning", "--conf-dir", str(Path(__file__).parent)]
        options += ["--builder", "html", "--doctree-dir", str(doctrees)]
        # The texts first: by them `emptied` knows the site of a build that was interrupted.
        write_texts(navigation, pages, site)
        return build_main([*options, str(pages), str(site)])


def main() -> int:
    """Build the site and say where it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.website", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    site = parser.parse_args().folder.resolve()
    try:
        status = build(site)
    except (SiteFolderError, ValueError) as problem:
        raise SystemExit(str(problem)) from None
    if status == 0:
        print(f"open {site / 'index.html'} in a browser; no server is needed")
    return status


if __name__ == "__main__":
    sys.exit(main())
