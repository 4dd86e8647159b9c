"""Installs a wheel of kwire as users do, where no clone is, and uses what was installed.

    python3 tools/check_wheel.py dist/kwire-0.1.0-py3-none-any.whl [WAY ...]

The ways, all of them without arguments:

    pip       pip install WHEEL in a new environment; `pip check`; --help of every command
    testing   pip install 'WHEEL[testing]'; a test with the fixtures is green
    uvx       uvx --from WHEEL kwire
    uv-tool   uv tool install WHEEL
    pipx      pipx install WHEEL

Except for `testing`, each way then starts `kwire serve`, writes a record and reads it.  All of it
happens in a temporary folder, with an empty home and nothing else on PATH than the system's own
programs.  Each way runs twice: the first time downloads what it needs, and the second time, without
the network, is what is measured.  The exit status is 1 if a way fails, or takes more than 30
seconds of processor time without the downloads: unlike the time on the clock, which is printed too,
this does not depend on what else the machine does.

This file needs Python 3.11 or newer and its venv module, and nothing else: it can be copied to
where there is no clone, and tests the Python that runs it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

BUDGET_S: Final = 30.0
"""Processor time from a Python and the downloaded files to a record that was read back."""
DEADLINE_S: Final = 600.0
"""For any one command; only a broken one comes near."""
PASSED_ON: Final = re.compile(r"(PIP|UV)_.*|.*_(PROXY|proxy)|SSL_CERT_\w+|LANG|TMPDIR|PYTHONUTF8")
"""Variables that the ways get from outside: how this machine reaches an index, and the language."""
READY: Final = "is ready."
LISTENS: Final = re.compile(r"listens on (localhost:\d+)")
RECORD: Final = "hello from a wheel"
COMMAND: Final = re.compile(r"^  ([a-z]+)  ", re.MULTILINE)

GREEN_TEST: Final = """\
import subprocess
import sys


def test_a_record_is_written(kafka, kafka_topic):
    produce = [sys.executable, "-m", "kwire", "produce", kafka_topic.name, "-b", kafka.bootstrap]
    subprocess.run(produce, input=b"hello", check=True)
    kafka_topic.assert_holds(["hello"])
"""


class CheckFailed(RuntimeError):
    """A command failed or printed something else; the message has its output."""


@dataclass
class Stage:
    """A folder in which a way installs kwire and uses it: its home, its caches, its environment."""

    folder: Path
    wheel: Path
    downloads: Path
    """What the first run downloads and the second one uses."""
    offline: bool
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        home, work = self.folder / "home", self.work
        home.mkdir(parents=True)
        work.mkdir()
        given = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
        self.environment = given | {
            "HOME": str(home),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "UV_CACHE_DIR": str(self.downloads / "uv"),
            "UV_PYTHON": sys.executable,
            "UV_PYTHON_DOWNLOADS": "never",
            "PIPX_DEFAULT_PYTHON": sys.executable,
        }
        if self.offline:
            self.environment |= {"UV_OFFLINE": "1", "PIP_NO_INDEX": "1"}
        self.environment["PIP_FIND_LINKS"] = str(self.downloads / "wheels")

    @property
    def work(self) -> Path:
        """The current folder of all commands, which is empty at first."""
        return self.folder / "work"

    @property
    def tools(self) -> Path:
        """The programs uv, uvx and pipx; they are no part of what is measured."""
        return self.downloads / "tools" / "bin"

    def run(self, *command: str | Path, typed: str = "") -> str:
        """The standard output of a command.  Raises CheckFailed unless it succeeds."""
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment,
            input=typed,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if done.returncode:
            words = " ".join(map(str, command))
            raise CheckFailed(f"{words}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def new_venv(self) -> Path:
        """The Python of a new environment."""
        self.run(sys.executable, "-m", "venv", self.folder / "venv")
        return self.folder / "venv" / "bin" / "python"

    def pip_install(self, python: Path, *requirements: str) -> None:
        """Install into the environment of `python`; downloads first, unless it is offline."""
        if not self.offline:
            wheels = self.downloads / "wheels"
            self.run(python, "-m", "pip", "download", "--quiet", "--dest", wheels, *requirements)
        self.run(python, "-m", "pip", "install", "--quiet", *requirements)


@contextmanager
def serving(stage: Stage, kwire: Sequence[str | Path]) -> Iterator[str]:
    """Run `kwire serve` on a free port, and yield its address when it is ready."""
    log = stage.work / "serve.log"
    with log.open("w") as output:
        broker = subprocess.Popen(
            [*kwire, "serve", "--port", "0"],
            cwd=stage.work,
            env=stage.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + DEADLINE_S
        while READY not in log.read_text():
            if broker.poll() is not None or time.monotonic() > deadline:
                raise CheckFailed(f"kwire serve did not become ready:\n{log.read_text()}")
            time.sleep(0.02)
        yield LISTENS.findall(log.read_text())[0]
    finally:
        broker.terminate()
        status = broker.wait(DEADLINE_S)
    if status:
        raise CheckFailed(f"kwire serve ended with exit status {status}:\n{log.read_text()}")


def use(stage: Stage, kwire: Sequence[str | Path]) -> None:
    """Write a record to a broker and read it, all with the command `kwire`.  Raises CheckFailed."""
    with serving(stage, kwire) as bootstrap:
        stage.run(*kwire, "produce", "greetings", "-b", bootstrap, typed=f"{RECORD}\n")
        printed = stage.run(
            *kwire, "consume", "greetings", "--from-beginning", "--exit", "-b", bootstrap
        )
        if printed.splitlines() != [RECORD]:
            raise CheckFailed(f"kwire consume printed something else than the record:\n{printed}")


def by_pip(stage: Stage) -> None:
    python = stage.new_venv()
    stage.pip_install(python, str(stage.wheel))
    use(stage, [python.parent / "kwire"])
    if not stage.offline:  # not measured: no user does this
        stage.run(python, "-m", "pip", "check")
        check_commands(stage, python.parent / "kwire")


def check_commands(stage: Stage, kwire: Path) -> None:
    """Ask each command for its help, which imports it.  Raises CheckFailed."""
    commands = COMMAND.findall(stage.run(kwire, "--help"))
    if "serve" not in commands:
        raise CheckFailed("kwire --help does not list its commands")
    for name in commands:
        stage.run(kwire, name, "--help")


def by_pip_with_testing(stage: Stage) -> None:
    python = stage.new_venv()
    stage.pip_install(python, f"{stage.wheel}[testing]")
    (stage.work / "test_first.py").write_text(GREEN_TEST)
    printed = stage.run(python, "-m", "pytest", "-p", "no:cacheprovider")
    if "1 passed" not in printed:
        raise CheckFailed(f"the test with kwire's fixtures did not pass:\n{printed}")


def by_uvx(stage: Stage) -> None:
    use(stage, [stage.tools / "uvx", "--quiet", "--from", stage.wheel, "kwire"])


def by_uv_tool(stage: Stage) -> None:
    stage.run(stage.tools / "uv", "tool", "install", "--quiet", stage.wheel)
    use(stage, [Path(stage.environment["HOME"], ".local", "bin", "kwire")])


def by_pipx(stage: Stage) -> None:
    if not stage.offline:
        wheels = stage.downloads / "wheels"
        python = stage.tools / "python"
        stage.run(python, "-m", "pip", "download", "--quiet", "--dest", wheels, stage.wheel)
    stage.run(stage.tools / "pipx", "install", stage.wheel)
    use(stage, [Path(stage.environment["HOME"], ".local", "bin", "kwire")])


WAYS: Final[Mapping[str, Callable[[Stage], None]]] = {
    "pip": by_pip,
    "testing": by_pip_with_testing,
    "uvx": by_uvx,
    "uv-tool": by_uv_tool,
    "pipx": by_pipx,
}


def fetch_tools(stage: Stage) -> None:
    """Install uv and pipx into an environment of their own, from the index."""
    tools = stage.downloads / "tools"
    stage.run(sys.executable, "-m", "venv", tools)
    stage.run(stage.tools / "python", "-m", "pip", "install", "--quiet", "uv", "pipx")


def check(way: str, wheel: Path, folder: Path) -> bool:
    """Run a way twice, print what it took, and return whether it works within the budget."""
    downloads = folder / "downloads"
    took: list[float] = []
    for turn, offline in (("first", False), ("second", True)):
        start, processor_start_s = time.monotonic(), processor_s()
        WAYS[way](Stage(folder / way / turn, wheel, downloads, offline))
        took.append(time.monotonic() - start)
    processor_time_s = processor_s() - processor_start_s
    print(
        f"{way:8} {took[1]:6.1f} s, of the processor {processor_time_s:.1f} s;"
        f" with downloads {took[0]:.1f} s",
        flush=True,
    )
    return processor_time_s <= BUDGET_S


def processor_s() -> float:
    """The processor time of all commands that have ended, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Install a wheel of kwire as users do, and use what was installed."
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    given = parser.parse_args()
    unknown = set(given.ways) - WAYS.keys()
    if unknown or not given.wheel.is_file():
        parser.error(f"no such way: {', '.join(unknown)}" if unknown else f"no {given.wheel}")
    print(
        f"Python {platform.python_version()}, {platform.platform()}: {sys.executable}", flush=True
    )
    folder = Path(tempfile.mkdtemp(prefix="kwire-wheel-"))
    try:
        fetch_tools(Stage(folder / "fetching", given.wheel.resolve(), folder / "downloads", False))
        slow = [way for way in given.ways or WAYS if not check(way, given.wheel.resolve(), folder)]
    except (CheckFailed, subprocess.TimeoutExpired) as error:
        print(f"check_wheel: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    for way in slow:
        print(
            f"check_wheel: {way} took more than {BUDGET_S:.0f} s of processor time", file=sys.stderr
        )
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
