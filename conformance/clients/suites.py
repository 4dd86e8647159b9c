"""A client's suite: its folder, what it needs of a broker, and how it is run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kwire.conformance.clients.more_listeners import User, users_in
from kwire.conformance.clients.results import AllowList, BadFile, Comparison, Outcome, parse

HERE = Path(__file__).parent

TIMEOUT_S = 3600.0
"""Of one suite with what it builds; the longest takes some ten minutes. What hangs ends so."""
STOP_TIMEOUT_S = 10.0
STDERR = 2
"""What a suite says on the way is no result of the command."""
SAID_CHARACTERS = 3000


EXIT_NOT_OBTAINED = 69
"""EX_UNAVAILABLE of sysexits.h."""


class NotRun(RuntimeError):
    """The suite could not be run; the message ends with what it said."""


class NotObtained(NotRun):
    """The suite's sources could not be obtained: no network, say."""


@dataclass(frozen=True)
class Suite:
    """The suite in `folder`, which is named after its client."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def allow_file(self) -> Path:
        return self.folder / "allow.txt"

    def settings(self, *, apache: bool) -> dict[str, str]:
        """The broker settings that the suite needs, by name."""
        names = ["broker.properties", *(["apache-kafka.properties"] if apache else [])]
        return {
            name: value
            for each in names
            if (self.folder / each).exists()
            for name, value in properties((self.folder / each).read_text()).items()
        }

    @property
    def users(self) -> list[User]:
        """Who logs in at the broker's other listeners, if the suite has tests of that."""
        file = self.folder / "sasl-users.properties"
        return users_in(properties(file.read_text())) if file.exists() else []

    def run(
        self,
        bootstrap: str,
        results: Path,
        tests: tuple[str, ...] = (),
        timeout_s: float = TIMEOUT_S,
        against: Path | None = None,
        more: Mapping[str, str] | None = None,
    ) -> Comparison:
        """Run it (only `tests`, if any are named) and compare; what it says goes to stderr.

        With the allow list, or with what passed by the results file `against`.  `more`
        is of its environment: the broker's other listeners.
        `results` and `results`.log are written anew. Raises NotRun.
        """
        results.parent.mkdir(parents=True, exist_ok=True)
        results.unlink(missing_ok=True)
        log = results.with_name(f"{results.name}.log")
        log.unlink(missing_ok=True)
        began = time.monotonic()
        command = [str(self.folder / "run"), bootstrap, str(results), *tests]
        status = _run(command, timeout_s, more or {})
        seconds = time.monotonic() - began
        if status == EXIT_NOT_OBTAINED:
            raise NotObtained(f"{self.name}: its sources could not be obtained")
        if status != 0 or not results.exists():
            said = log.read_text(errors="replace")[-SAID_CHARACTERS:] if log.exists() else ""
            raise NotRun(f"{self.name}: `run` ended with status {status}\n{said}".rstrip())
        try:
            outcomes = parse(results.read_text())
            allowed = self._passed(against) if against else AllowList.read(self.allow_file).tests
        except BadFile as error:
            raise NotRun(f"{self.name}: {error}") from error
        if tests:
            allowed &= outcomes.keys()
        return Comparison(self.name, outcomes, allowed, seconds, log)

    def _passed(self, results: Path) -> frozenset[str]:
        """Raises BadFile."""
        outcomes = parse(results.read_text())
        return frozenset(test for test, each in outcomes.items() if each is Outcome.PASS)


def suites(folder: Path = HERE) -> dict[str, Suite]:
    """All suites by name."""
    return {path.parent.name: Suite(path.parent) for path in sorted(folder.glob("*/run"))}


def properties(text: str) -> dict[str, str]:
    """`name=value` lines; empty ones and `#` comments are left out. Raises ValueError."""
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"not a setting: {line!r}")
        found[name.strip()] = value.strip()
    return found


def _run(command: list[str], timeout_s: float, more: Mapping[str, str]) -> int:
    """The status of `command`, whose processes are all ended when it takes too long."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=STDERR,
        env=os.environ | {"PYTHON": os.environ.get("PYTHON", sys.executable)} | dict(more),
        start_new_session=True,
    )
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired as error:
        raise NotRun(f"{command[0]}: not done within {timeout_s:.0f} s") from error
    finally:
        if process.poll() is None:
            _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """The suite's clients are its children: they go with it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
            return
