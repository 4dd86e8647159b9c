"""Builds the source distribution and the wheel of kwire in `dist/`, and checks them.

    make dist                        what this writes is ready for an index
    make dist REPOSITORY=https://example.org/kwire    with links to the repository there

A build has only the files that git tracks, with the time of the last commit, so that a second build
of the same commit has the same bytes.  The wheel is built from the source distribution, twice: both
must be alike.  Then twine and check-wheel-contents read the files, and pip installs the wheel into
an empty environment and checks what it needs.

The address of the repository is stated nowhere else.  With `--repository`, as in a release, the
metadata have it, and the links of README.md lead there, because an index shows that page without
the others.  That page then also names the package instead of the clone.

This runs in the environment `build/release`; see environment.py.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
DIST: Final = ROOT / "dist"
LINK: Final = re.compile(r"(\]\()(?!https?://|#)([^)#\s]+)")
BRANCH: Final = "HEAD"
"""Links lead to the newest pages; a tag would do as well, but not every build has one."""
URLS: Final = """
[project.urls]
Source = "{0}"
Issues = "{0}/issues"
Changelog = "{0}/blob/{1}/CHANGELOG.md"
Documentation = "{0}/tree/{1}/docs"
"""


UNPUBLISHED: Final = "kwire is not on PyPI yet"
FROM_CLONE: Final = f"{UNPUBLISHED}. In the clone, `pip install .` installs"
ALSO_FROM_CLONE: Final = "`uv tool install .` or `pipx install .`"
"""What README.md says until a release; the page on the index has the package's name instead."""


def run(*command: str | Path, folder: Path = ROOT, epoch: str | None = None) -> str:
    """The output of a command.  It ends this program, with what the command wrote, if it fails."""
    given = os.environ if epoch is None else os.environ | {"SOURCE_DATE_EPOCH": epoch}
    done = subprocess.run(
        command, cwd=folder, env=given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def copy_tracked(target: Path) -> None:
    """Copy the files that git tracks, as they are in the work tree."""
    for name in run("git", "ls-files", "-z").split("\0"):
        source = ROOT / name
        if name and source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def absolute(page: str, repository: str) -> str:
    """The text of a page with links to `repository` instead of to the files beside it."""
    return LINK.sub(rf"\g<1>{repository}/blob/{BRANCH}/\g<2>", page)


def published(page: str) -> str:
    """The text of README.md as the index shows it, where kwire is then published."""
    page = page.replace(FROM_CLONE, "`pip install kwire` installs")
    page = page.replace(ALSO_FROM_CLONE, ALSO_FROM_CLONE.replace("install .", "install kwire"))
    if UNPUBLISHED in page:
        raise SystemExit(f"dist: README.md says in other words that {UNPUBLISHED}")
    return page


def name_repository(source: Path, repository: str) -> None:
    """Write the address of the repository into the metadata and README.md of a copied tree."""
    project = source / "pyproject.toml"
    text = project.read_text()
    mark = "\n[project.optional-dependencies]"
    if text.count(mark) != 1 or "[project.urls]" in text:
        raise SystemExit("dist: pyproject.toml has another form: where do project.urls belong?")
    project.write_text(text.replace(mark, URLS.format(repository, BRANCH) + mark))
    readme = source / "README.md"
    readme.write_text(absolute(published(readme.read_text()), repository))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build(source: Path) -> tuple[Path, Path]:
    """Build both files of the tree `source` into `dist/`.  Returns the wheel and the sdist."""
    shutil.rmtree(DIST, ignore_errors=True)
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    options = ("--no-isolation", "--outdir")
    run(sys.executable, "-m", "build", *options, DIST, folder=source, epoch=epoch)
    [wheel], [sdist] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as name:
        again = Path(name)
        run("tar", "xzf", sdist, "-C", again)
        [unpacked] = again.iterdir()
        run(
            sys.executable, "-m", "build", "--wheel", *options, again,
            folder=unpacked, epoch=epoch,
        )  # fmt: skip
        if digest(again / wheel.name) != digest(wheel):
            raise SystemExit(f"dist: {sdist.name} builds another wheel than {wheel.name}")
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path) -> None:
    """Check the metadata and the lists of files."""
    tools = Path(sys.executable).parent
    run(tools / "twine", "check", "--strict", wheel, sdist)
    run(tools / "check-wheel-contents", wheel)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    absent = tuple(name.replace(".", "/") + "/" for name in project["kwire"]["only-in-a-clone"])
    with zipfile.ZipFile(wheel) as files:
        surplus = [name for name in files.namelist() if name.startswith(absent)]
    if surplus:
        raise SystemExit(f"dist: the wheel has what is only for a clone: {surplus[0]}")


def check_installed(wheel: Path) -> None:
    """Install the wheel into an empty environment; what it needs must be there and fit."""
    with tempfile.TemporaryDirectory() as name:
        venv.create(name, with_pip=True)
        python = Path(name, "bin", "python")
        run(python, "-m", "pip", "install", "--quiet", wheel, folder=Path(name))
        run(python, "-m", "pip", "check", folder=Path(name))
        version = run(python.parent / "kwire", "--version", folder=Path(name)).split()[1]
    if version != wheel.name.split("-")[1]:
        raise SystemExit(f"dist: kwire --version says {version}, but the wheel is {wheel.name}")


def only_in_a_clone() -> Iterable[Path]:
    """The files of the packages that the wheel leaves out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    folders: dict[str, str] = project["setuptools"]["package-dir"]
    for package in project["kwire"]["only-in-a-clone"]:
        owner = max((name for name in folders if f"{package}.".startswith(f"{name}.")), key=len)
        folder = Path(folders[owner], *package.removeprefix(owner).strip(".").split("."))
        yield from (ROOT / folder).glob("*.py")


def report(wheel: Path, sdist: Path) -> None:
    """Print the files, their sizes, and what the wheel would weigh with all packages."""
    left_out = list(only_in_a_clone())
    spared = sum(len(zlib.compress(path.read_bytes(), 6)) for path in left_out)
    for path in (wheel, sdist):
        print(
            f"{path.relative_to(ROOT)}  {path.stat().st_size / 1e6:.2f} MB  sha256 {digest(path)}"
        )
    print(f"the wheel leaves out {len(left_out)} modules for developers, {spared / 1e6:.2f} MB")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build and check the files of a release.")
    parser.add_argument(
        "--repository", default="", metavar="URL", help="the public address of the repository"
    )
    repository = parser.parse_args().repository.rstrip("/")
    with tempfile.TemporaryDirectory(prefix="kwire-dist-") as name:
        source = Path(name)
        copy_tracked(source)
        if repository:
            name_repository(source, repository)
        else:
            print("without REPOSITORY=URL the metadata have no address, and README's links none")
        wheel, sdist = build(source)
    check_contents(wheel, sdist)
    check_installed(wheel)
    report(wheel, sdist)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
