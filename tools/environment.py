"""Installs the locked dependencies and kwire itself (editable) into an environment.

    python3 tools/environment.py run    what the broker needs
    python3 tools/environment.py dev    also what the checks, tests and demos need
    python3 tools/environment.py mutants    also what `make mutants` needs
    python3 tools/environment.py release    what builds and checks a release, without kwire
    python3 tools/environment.py spark-4.0.0    as dev, but with an older Spark, for `make spark`

The environment is `.venv`; `release` and an older Spark have one of their own, such as
`build/spark-4.0.0`.
This runs on Python 3.11 or newer without any packages.  It ends at once if nothing has changed,
because a file in the environment has a digest of what was installed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON_MIN = (3, 11)

LOCKS = {
    "run": ["build.txt", "kwire.txt"],
    "dev": ["build.txt", "dev.txt"],
    "mutants": ["build.txt", "mutants.txt"],
    "release": ["release.txt"],
    "spark-4.0.0": ["build.txt", "dev.txt", "spark-4.0.0.txt"],
}
"""Lock files in the order of installation.  Build tools come first, for packages from sources."""
HOLDS = {"run": ["run", "dev", "mutants"], "dev": ["dev", "mutants"]}
"""For each kind of environment, the kinds that contain it, if there are others than itself."""


def folder(kind: str) -> Path:
    """The environment that has this kind."""
    return ROOT / ".venv" if kind in ("run", "dev", "mutants") else ROOT / "build" / kind


def python(kind: str) -> Path:
    """The Python of the environment that has this kind."""
    return folder(kind) / "bin" / "python"


def digest(kind: str) -> str:
    """A digest of the locks, the project file, this file and the Python version."""
    files = [ROOT / "requirements" / name for name in LOCKS[kind]]
    sha = hashlib.sha256(sys.version.encode())
    for path in (*files, ROOT / "pyproject.toml", Path(__file__)):
        sha.update(path.read_bytes())
    return sha.hexdigest()


def stamp(kind: str) -> Path:
    """The file in the environment that has the digest of what was installed."""
    return folder(kind) / f"installed-{kind}"


def is_ready(kind: str) -> bool:
    """Whether an earlier run has installed this kind, and nothing has changed since."""
    return python(kind).exists() and any(
        stamp(held).exists() and stamp(held).read_text() == digest(held)
        for held in HOLDS.get(kind, [kind])
    )


def call(*command: str | Path) -> bool:
    """Run a command without its output.  Returns False if it fails."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def make_venv(kind: str) -> list[str | Path]:
    """Create an empty environment unless it exists.  Returns the pip command for it.

    Some systems ship Python without the part of `venv` that installs pip (Debian's python3-venv).
    Then the system's pip, or uv, installs into the environment.
    """
    venv, its_python = folder(kind), python(kind)
    if not its_python.exists() and not call(sys.executable, "-m", "venv", "--without-pip", venv):
        raise SystemExit(
            "python3 has no venv module: install it (Debian: apt install python3-venv)"
        )
    own: list[str | Path] = [its_python, "-m", "pip"]
    has_pip = any((venv / "lib").glob("python*/site-packages/pip"))
    if has_pip or call(its_python, "-m", "ensurepip", "--upgrade", "--default-pip"):
        return own
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "--python", its_python]
    uv = shutil.which("uv")
    if uv and call(uv, "pip", "install", "--quiet", "--python", its_python, "pip"):
        return own
    raise SystemExit("pip is missing: install it (Debian: apt install python3-venv)")


def install(kind: str) -> None:
    """Install the locked versions, with checked hashes, and then kwire itself.

    The digest is of the files before: one that changes meanwhile is installed the next time.
    """
    installed = digest(kind)
    pip = [*make_venv(kind), "install", "--quiet", "--disable-pip-version-check"]
    for name in LOCKS[kind]:
        lock = ROOT / "requirements" / name
        print(f"{folder(kind).name}: installing {lock.relative_to(ROOT)}", flush=True)
        if not call(*pip, "--no-build-isolation", "--require-hashes", "--requirement", lock):
            raise SystemExit(f"could not install {lock.relative_to(ROOT)}")
    if kind != "release" and not call(
        *pip, "--no-build-isolation", "--no-deps", "--editable", ROOT
    ):
        raise SystemExit("could not install kwire into the environment")
    stamp(kind).write_text(installed)


def main() -> int:
    """Create or update the environment of the kind in the only argument."""
    if sys.version_info < PYTHON_MIN:
        needed = ".".join(map(str, PYTHON_MIN))
        raise SystemExit(f"kwire needs Python {needed} or newer, this is {sys.version.split()[0]}")
    if len(sys.argv) != 2 or sys.argv[1] not in LOCKS:
        raise SystemExit(__doc__)
    if not is_ready(sys.argv[1]):
        install(sys.argv[1])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
