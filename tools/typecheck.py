"""Type-check the import tree: `codecs/` as `kwire.codecs`, and so on.

mypy does not read import hooks, and from the repository root it would take our `codecs/` for the
standard library's.  So it runs inside a tree of links that has the shape of the installed package.

    python tools/typecheck.py                    everything: kwire, tests, tools
    python tools/typecheck.py kwire/log tests/log    these folders or files, as the import tree
                                                     names them, or as the repository does (log)
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
    """Import name -> folder, as the build reads it."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders: dict[str, str] = pyproject["tool"]["setuptools"]["package-dir"]
    return folders


def wanted_links(folders: dict[str, str]) -> dict[Path, Path]:
    """Link -> what it points at, for the tree in the shape of the installed package."""
    links = {TREE / name: ROOT / name for name in LINKED_AS_THEY_ARE}
    for package, folder in folders.items():
        target = TREE.joinpath(*package.split("."))
        for entry in (ROOT / folder).iterdir():
            if entry.name != "__pycache__":
                links[target / entry.name] = entry
    return links


def link_tree(folders: dict[str, str]) -> None:
    """Bring the tree up to date link by link: another run may be reading it just now."""
    links = wanted_links(folders)
    for link, target in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            try:
                link.symlink_to(target)
            except FileExistsError:  # the other run was first
                continue
    for package in folders:
        for entry in TREE.joinpath(*package.split(".")).iterdir():
            if entry.is_symlink() and entry not in links:
                entry.unlink(missing_ok=True)


def in_tree(argument: str, folders: dict[str, str]) -> str:
    """`log/segment.py` -> `kwire/log/segment.py`; what the tree has under its own name stays."""
    argument = argument.rstrip("/")
    head, _, rest = argument.partition("/")
    for package, folder in folders.items():
        if head == folder:
            return "/".join((*package.split("."), rest)) if rest else package.replace(".", "/")
    return argument


def in_repository(line: str, folders: dict[str, str]) -> str:
    """A line of mypy's output with the path an editor can open."""
    for package in sorted(folders, key=len, reverse=True):
        prefix = package.replace(".", "/") + "/"
        if line.startswith(prefix):
            return f"{folders[package]}/{line[len(prefix) :]}"
    return line


def main() -> int:
    """Return mypy's own exit status."""
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
