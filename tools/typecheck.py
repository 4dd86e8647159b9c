"""Type-checks the import tree: `codecs/` as `kwire.codecs`, and so on.

mypy does not read import hooks, and in the repository's root it would take our `codecs/` for the
standard library's module.  So it runs in a tree of links with the shape of the installed package.

    python tools/typecheck.py                    everything: kwire, tests, tools
    python tools/typecheck.py kwire/log tests/log    these folders or files, with their names in
                                                     the import tree or in the repository (log)
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "typecheck"
LINKED_AS_THEY_ARE = ("tests", "tools")


def package_folders() -> dict[str, str]:
    """The folder of each package by its import name, as in pyproject.toml."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders: dict[str, str] = pyproject["tool"]["setuptools"]["package-dir"]
    return folders


def wanted_links(folders: dict[str, str]) -> dict[Path, Path]:
    """The target of each link of the tree."""
    links = {TREE / name: ROOT / name for name in LINKED_AS_THEY_ARE}
    for package, folder in folders.items():
        target = TREE.joinpath(*package.split("."))
        for entry in (ROOT / folder).iterdir():
            if entry.name != "__pycache__":
                links[target / entry.name] = entry
    return links


def link_tree(folders: dict[str, str]) -> None:
    """Update the tree one link at a time, because another run may be reading it."""
    links = wanted_links(folders)
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            try:
                link.symlink_to(target)
            except FileExistsError:  # another run has created it
                continue
    for package in folders:
        for entry in TREE.joinpath(*package.split(".")).iterdir():
            if entry.is_symlink() and entry not in links:
                entry.unlink(missing_ok=True)


def in_tree(argument: str, folders: dict[str, str]) -> str:
    """The path in the tree: `kwire/log/segment.py` for `log/segment.py`; others are unchanged."""
    argument = argument.rstrip("/")
    head, _, rest = argument.partition("/")
    for package, folder in folders.items():
        if head == folder:
            return "/".join((*package.split("."), rest)) if rest else package.replace(".", "/")
    return argument


def in_repository(line: str, folders: dict[str, str]) -> str:
    """A line of mypy's output with the path in the repository, which an editor can open."""
    for package in sorted(folders, key=len, reverse=True):
        prefix = package.replace(".", "/") + "/"
        if line.startswith(prefix):
            return f"{folders[package]}/{line[len(prefix) :]}"
    return line


def main() -> int:
    """Run mypy and return its exit status."""
    folders = package_folders()
    link_tree(folders)
    named = [in_tree(argument, folders) for argument in sys.argv[1:]]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            f"--config-file={ROOT / 'pyproject.toml'}",
            f"--cache-dir={ROOT / '.mypy_cache'}",
            *(named or ["kwire", *LINKED_AS_THEY_ARE]),
        ],
        cwd=TREE,
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        print(in_repository(line, folders))
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
