"""Runs tests of a Go module, each in its own process; needs only Python and Go.

    go_tests.py source MODULE@VERSION SUM     prints the folder with a copy of its sources
    go_tests.py run FOLDER TESTS RESULTS [TEST...]

With a process for each test, a panic or a hang does not end other tests. TESTS is a file with a
line for each test, `PACKAGE TEST`, where the package is a folder relative to FOLDER. A test's id is
that line, followed by `/SUBTEST` for a subtest. A line that begins with `-` is the id of a subtest
that is not run and counts as skipped.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE

GO_ENVIRONMENT = {"GOFLAGS": "-mod=mod"}
"""The module's own go.mod and go.sum may lack dependencies of its tests."""
KILL_AFTER_S = 20
"""Go ends a test at its timeout with the stacks of all goroutines; if it does not, we do."""
OUTCOMES = ("pass", "fail", "skip")


@dataclass(frozen=True)
class GoTest:
    """One top-level test of one package."""

    package: str
    name: str
    left_out: tuple[str, ...] = ()
    """Ids of its subtests that are not run."""

    @property
    def id(self) -> str:
        return f"{self.package} {self.name}"


@dataclass(frozen=True)
class ProcessResult:
    """The result of one process: the outcomes by test id, and its output."""

    outcomes: Mapping[str, str]
    output: str


def source(module: str, checksum: str) -> Path:
    """Return a copy of the sources of `module` (PATH@VERSION) in the user's cache directory.

    They come through the Go module proxy; `checksum` is the h1 of go.sum. Raises ValueError if it
    differs, CalledProcessError if the module cannot be downloaded.
    """
    module_path, _, version = module.partition("@")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kwire", "clients")
    target = base / f"{module_path.rpartition('/')[2]}-{version}"
    base.mkdir(parents=True, exist_ok=True)
    with open(base / f"{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # only one process copies
        if target.is_dir():
            return target
        command = ["go", "mod", "download", "-json", module]
        download = json.loads(subprocess.run(command, cwd=base, stdout=PIPE, check=True).stdout)
        if download["Sum"] != checksum:
            raise ValueError(f"{module} is {download['Sum']}, not {checksum}")
        with tempfile.TemporaryDirectory(dir=base, prefix=f"{target.name}.new-") as folder:
            fresh = Path(folder, "sources")
            shutil.copytree(download["Dir"], fresh, copy_function=shutil.copyfile)
            for path in (fresh, *fresh.rglob("*")):
                path.chmod(0o755 if path.is_dir() else 0o644)  # the module cache is read-only
            subprocess.run(["go", "mod", "download"], cwd=fresh, check=True)  # its dependencies
            fresh.rename(target)
    return target


def parse(text: str) -> list[GoTest]:
    """Return the tests in the text of a file of tests. Raises ValueError."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    left_out = [line[1:] for line in lines if line.startswith("-")]
    tests = []
    for line in lines:
        if line.startswith("-"):
            continue
        package, space, name = line.partition(" ")
        if not space or not package or not name.startswith("Test"):
            raise ValueError(f"not a test: {line!r}")
        subtests = tuple(test_id for test_id in left_out if test_id.startswith(f"{line}/"))
        tests.append(GoTest(package, name, subtests))
    return tests


def top_level(test_id: str) -> str:
    """Return the id of the top-level test to which `test_id` belongs; packages may contain
    slashes."""
    package, _, name = test_id.partition(" ")
    return f"{package} {name.partition('/')[0]}"


def chosen(tests: Sequence[GoTest], wanted: Sequence[str]) -> list[GoTest]:
    """Return the tests to which the ids `wanted` belong; all tests if it is empty.

    Raises ValueError.
    """
    names = {top_level(test_id) for test_id in wanted}
    unknown = names - {test.id for test in tests}
    if unknown:
        raise ValueError(f"no such test: {', '.join(sorted(unknown))}")
    return [test for test in tests if not wanted or test.id in names]


def exactly(name: str) -> str:
    """Return the pattern of Go's test flags for exactly one test, with a regular expression per
    level."""
    return "/".join(f"^{re.escape(level)}$" for level in name.split("/"))


def outcomes_of(test: GoTest, events: Iterable[str]) -> ProcessResult:
    """Return the result of a process from its test2json lines.

    A test that began and did not end (because of a panic or the timeout) failed, and so did a test
    that never began.
    """
    outcomes = {test.id: "fail"} | dict.fromkeys(test.left_out, "skip")
    output = []
    for line in events:
        try:
            event = json.loads(line)
        except ValueError:  # a line cut at the timeout, or not of test2json
            output.append(line)
            continue
        action, name = event["Action"], event.get("Test")
        if action == "output":
            output.append(event["Output"])
        elif name is not None and action in ("run", *OUTCOMES):
            outcomes[f"{test.package} {name}"] = "fail" if action == "run" else action
    return ProcessResult(outcomes, "".join(output))


def build(folder: Path, package: str, binary: Path) -> None:
    """Compile the tests of `package`. Raises CalledProcessError."""
    command = ["go", "test", "-c", "-o", str(binary), f"./{package}"]
    subprocess.run(command, cwd=folder, env=os.environ | GO_ENVIRONMENT, check=True)


def run_test(test: GoTest, folder: Path, binary: Path, timeout_s: int) -> ProcessResult:
    """Run one test in its own process, in its package's folder as `go test` does."""
    command = [
        *("go", "tool", "test2json", "-t", "-p", test.package, str(binary)),
        *("-test.v=test2json", "-test.paniconexit0", f"-test.timeout={timeout_s}s"),
        f"-test.run={exactly(test.name)}",
    ]
    if test.left_out:
        names = [test_id.partition(" ")[2] for test_id in test.left_out]
        command.append(f"-test.skip={'|'.join(map(exactly, names))}")
    with tempfile.TemporaryFile("w+", errors="replace") as written:
        process = subprocess.Popen(
            command,
            cwd=folder / test.package,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(timeout_s + KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its child processes, too
            process.wait()
        written.seek(0)
        return outcomes_of(test, written)


def run(folder: Path, tests: Sequence[GoTest], at_once: int, timeout_s: int) -> list[ProcessResult]:
    """Run all of `tests`, up to `at_once` of them at the same time; results in their order."""
    with tempfile.TemporaryDirectory(prefix="kwire-go-tests-") as binaries:
        packages = sorted({test.package for test in tests})
        binary = {package: Path(binaries, str(number)) for number, package in enumerate(packages)}
        for package in packages:
            build(folder, package, binary[package])

        def run_one(test: GoTest) -> ProcessResult:
            done = run_test(test, folder, binary[test.package], timeout_s)
            print(f"{done.outcomes[test.id]} {test.id}", file=sys.stderr)
            return done

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(run_one, tests))


def write(done: Sequence[ProcessResult], wanted: Sequence[str], results: Path) -> None:
    """Write the outcomes of the wanted tests (all if none is named), and the output of failed
    ones."""
    outcomes = {test: outcome for result in done for test, outcome in result.outcomes.items()}
    lines = [
        f"{outcome}\t{test}\n"
        for test, outcome in sorted(outcomes.items())
        if not wanted or any(test == name or test.startswith(f"{name}/") for name in wanted)
    ]
    failing = [result.output for result in done if "fail" in result.outcomes.values()]
    results.with_name(f"{results.name}.log").write_text("\n".join(failing))
    results.write_text("".join(lines))


def main(arguments: Sequence[str]) -> int:
    """Print the folder of a module's sources, or run tests; return the exit status.

    Sources that cannot be had give EX_UNAVAILABLE: the tests are skipped then, not failed.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    sources = commands.add_parser("source")
    sources.add_argument("module")
    sources.add_argument("checksum")
    runs = commands.add_parser("run")
    for name in ("folder", "tests", "results"):
        runs.add_argument(name, type=Path)
    runs.add_argument("wanted", nargs="*")
    runs.add_argument("--at-once", type=int, default=1)
    runs.add_argument("--timeout", type=int, default=120, help="seconds for one top-level test")
    given = parser.parse_args(arguments)
    try:
        if given.command == "source":
            print(source(given.module, given.checksum))
            return 0
        tests = chosen(parse(given.tests.read_text()), given.wanted)
        done = run(given.folder, tests, given.at_once, given.timeout)
        write(done, given.wanted, given.results)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"go_tests: {error}", file=sys.stderr)
        return os.EX_UNAVAILABLE if given.command == "source" else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
