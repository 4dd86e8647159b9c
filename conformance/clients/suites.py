"""A client's test suite: its folder, the broker settings that it needs, and how to run it."""

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

from kwire.conformance.clients.more_listeners import SuiteUser, users_in
from kwire.conformance.clients.results import (
    AllowList,
    BadFile,
    SuiteComparison,
    SuiteOutcome,
    parse,
)

HERE = Path(__file__).parent

TIMEOUT_S = 3600.0
"""Limit for one suite with its build; the longest takes some ten minutes."""
STOP_TIMEOUT_S = 10.0
STDERR = 2
"""The output of a suite goes to stderr, since it is no result of the command."""
OUTPUT_CHARACTERS = 3000


EXIT_NOT_OBTAINED = 69
"""EX_UNAVAILABLE of sysexits.h."""


class NotRun(RuntimeError):
    """The suite could not be run; the message ends with its output."""


class NotObtained(NotRun):
    """The suite's sources could not be obtained, for example without a network."""


@dataclass(frozen=True)
class ClientSuite:
    """The suite in `folder`, whose name is the client's."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def allow_file(self) -> Path:
        return self.folder / "allow.txt"

    def settings(self, *, apache: bool) -> dict[str, str]:
        """Return the broker settings that the suite needs, by name."""
        names = ["broker.properties", *(["apache-kafka.properties"] if apache else [])]
        return {
            name: value
            for file_name in names
            if (self.folder / file_name).exists()
            for name, value in properties((self.folder / file_name).read_text()).items()
        }

    @property
    def users(self) -> list[SuiteUser]:
        """The users who log in at the broker's other listeners, if the suite tests that."""
        file = self.folder / "sasl-users.properties"
        return users_in(properties(file.read_text())) if file.exists() else []

    @property
    def uses_registry(self) -> bool:
        """Whether the suite needs a schema registry beside the broker."""
        return (self.folder / "uses-registry.txt").exists()

    def run(
        self,
        bootstrap: str,
        results: Path,
        tests: tuple[str, ...] = (),
        timeout_s: float = TIMEOUT_S,
        against: Path | None = None,
        more: Mapping[str, str] | None = None,
    ) -> SuiteComparison:
        """Run the suite, or only `tests`, and compare the outcomes; its output goes to stderr.

        The comparison is with the allow list, or with the tests that passed in the results file
        `against`. `more` are environment variables of the broker's other listeners. The files
        `results` and `results`.log are replaced. Raises NotRun.
        """
        results.parent.mkdir(parents=True, exist_ok=True)
        results.unlink(missing_ok=True)
        log = results.with_name(f"{results.name}.log")
        log.unlink(missing_ok=True)
        start = time.monotonic()
        command = [str(self.folder / "run"), bootstrap, str(results), *tests]
        status = _run(command, timeout_s, more or {})
        seconds = time.monotonic() - start
        if status == EXIT_NOT_OBTAINED:
            raise NotObtained(f"{self.name}: its sources could not be obtained")
        if status != 0 or not results.exists():
            output = log.read_text(errors="replace")[-OUTPUT_CHARACTERS:] if log.exists() else ""
            raise NotRun(f"{self.name}: `run` ended with status {status}\n{output}".rstrip())
        try:
            outcomes = parse(results.read_text())
            allowed = (
                self._read_passed(against) if against else AllowList.read(self.allow_file).tests
            )
        except BadFile as error:
            raise NotRun(f"{self.name}: {error}") from error
        if tests:
            allowed &= outcomes.keys()
        return SuiteComparison(self.name, outcomes, allowed, seconds, log)

    def _read_passed(self, results: Path) -> frozenset[str]:
        """Return the tests that passed in a results file. Raises BadFile."""
        outcomes = parse(results.read_text())
        return frozenset(test for test, outcome in outcomes.items() if outcome is SuiteOutcome.PASS)


def suites(folder: Path = HERE) -> dict[str, ClientSuite]:
    """Return all suites by name."""
    return {path.parent.name: ClientSuite(path.parent) for path in sorted(folder.glob("*/run"))}


def properties(text: str) -> dict[str, str]:
    """Return the `name=value` lines of a text without empty lines and `#` comments.

    Raises ValueError.
    """
    settings = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise ValueError(f"not a setting: {line!r}")
        settings[name.strip()] = value.strip()
    return settings


def _run(command: list[str], timeout_s: float, more: Mapping[str, str]) -> int:
    """Return the exit status of `command`; after `timeout_s` all its processes are ended.

    Raises NotRun.
    """
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
        raise NotRun(f"{command[0]}: did not end within {timeout_s:.0f} s") from error
    finally:
        if process.poll() is None:
            _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the suite with its clients, which are its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
            return
