"""Tests of a Go module, run one process each; needs nothing but Python and Go.

    go_tests.py source MODULE@VERSION SUM     prints the folder with a copy of its sources
    go_tests.py run FOLDER TESTS RESULTS [TEST...]

A process each, because a panic or a hang of one test takes its process with it and no other test.
TESTS is a file with a line a test, `PACKAGE TEST`: the package as a folder relative to FOLDER. Ids
are such a line followed by `/SUBTEST` where there are subtests. A line that begins with `-` is the
id of a subtest that is left out and counts as skipped.
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
"""The module's own go.mod and go.sum may lack what only its tests need."""
KILL_AFTER_S = 20
"""Go ends a test that takes too long by itself, with the stacks of all goroutines; or does not."""
OUTCOMES = ("pass", "fail", "skip")


@dataclass(frozen=True)
class Test:
    """One top-level test of one package."""

    package: str
    name: str
    left_out: tuple[str, ...] = ()
    """Ids of its subtests that are not run."""

    @property
    def id(self) -> str:
        return f"{self.package} {self.name}"


@dataclass(frozen=True)
class Done:
    """What one process came to: the outcome by id, and all it said."""

    outcomes: Mapping[str, str]
    said: str


def source(module: str, checksum: str) -> Path:
    """A copy of the sources of `module` (PATH@VERSION) in the user's cache directory.

    They come through the Go module proxy; `checksum` is what go.sum calls h1. Raises ValueError
    when it is another, CalledProcessError when the module cannot be had.
    """
    path, _, version = module.partition("@")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kwire", "clients")
    target = base / f"{path.rpartition('/')[2]}-{version}"
    base.mkdir(parents=True, exist_ok=True)
    with open(base / f"{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several processes one copies
        if target.is_dir():
            return target
        command = ["go", "mod", "download", "-json", module]
        told = json.loads(subprocess.run(command, cwd=base, stdout=PIPE, check=True).stdout)
        if told["Sum"] != checksum:
            raise ValueError(f"{module} is {told['Sum']}, not {checksum}")
        with tempfile.TemporaryDirectory(dir=base, prefix=f"{target.name}.new-") as folder:
            fresh = Path(folder, "sources")
            shutil.copytree(told["Dir"], fresh, copy_function=shutil.copyfile)
            for each in (fresh, *fresh.rglob("*")):
                each.chmod(0o755 if each.is_dir() else 0o644)  # the module cache is read-only
            subprocess.run(["go", "mod", "download"], cwd=fresh, check=True)  # what it needs itself
            fresh.rename(target)
    return target


def parse(text: str) -> list[Test]:
    """The tests that a file of tests names; raises ValueError."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    left_out = [line[1:] for line in lines if line.startswith("-")]
    tests = []
    for line in lines:
        if line.startswith("-"):
            continue
        package, space, name = line.partition(" ")
        if not space or not package or not name.startswith("Test"):
            raise ValueError(f"not a test: {line!r}")
        subtests = tuple(each for each in left_out if each.startswith(f"{line}/"))
        tests.append(Test(package, name, subtests))
    return tests


def top_level(test_id: str) -> str:
    """The id of the test that `test_id` is or is a part of; packages have slashes too."""
    package, _, name = test_id.partition(" ")
    return f"{package} {name.partition('/')[0]}"


def chosen(tests: Sequence[Test], wanted: Sequence[str]) -> list[Test]:
    """The tests that the ids `wanted` belong to; all if there are none. Raises ValueError."""
    names = {top_level(each) for each in wanted}
    unknown = names - {test.id for test in tests}
    if unknown:
        raise ValueError(f"no such test: {', '.join(sorted(unknown))}")
    return [test for test in tests if not wanted or test.id in names]


def exactly(name: str) -> str:
    """The pattern of Go's test flags for one test: a regular expression a level."""
    return "/".join(f"^{re.escape(each)}$" for each in name.split("/"))


def outcomes_of(test: Test, events: Iterable[str]) -> Done:
    """Read what test2json wrote of one process.

    What began and did not end (a panic, the time limit) failed, and so did what never began.
    """
    outcomes = {test.id: "fail"} | dict.fromkeys(test.left_out, "skip")
    said = []
    for line in events:
        try:
            event = json.loads(line)
        except ValueError:  # cut off at the time limit, or not of test2json
            said.append(line)
            continue
        action, name = event["Action"], event.get("Test")
        if action == "output":
            said.append(event["Output"])
        elif name is not None and action in ("run", *OUTCOMES):
            outcomes[f"{test.package} {name}"] = "fail" if action == "run" else action
    return Done(outcomes, "".join(said))


def build(folder: Path, package: str, binary: Path) -> None:
    """Compile the tests of `package`; raises CalledProcessError."""
    command = ["go", "test", "-c", "-o", str(binary), f"./{package}"]
    subprocess.run(command, cwd=folder, env=os.environ | GO_ENVIRONMENT, check=True)


def run_test(test: Test, folder: Path, binary: Path, timeout_s: int) -> Done:
    """One test in a process of its own, in its package's folder as `go test` does."""
    command = [
        *("go", "tool", "test2json", "-t", "-p", test.package, str(binary)),
        *("-test.v=test2json", "-test.paniconexit0", f"-test.timeout={timeout_s}s"),
        f"-test.run={exactly(test.name)}",
    ]
    if test.left_out:
        names = [each.partition(" ")[2] for each in test.left_out]
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
            os.killpg(process.pid, signal.SIGKILL)  # what it started writes no more, either
            process.wait()
        written.seek(0)
        return outcomes_of(test, written)


def run(folder: Path, tests: Sequence[Test], at_once: int, timeout_s: int) -> list[Done]:
    """All of `tests`, in their order, up to `at_once` of them at the same time."""
    with tempfile.TemporaryDirectory(prefix="kwire-go-tests-") as binaries:
        packages = sorted({test.package for test in tests})
        binary = {each: Path(binaries, str(number)) for number, each in enumerate(packages)}
        for each in packages:
            build(folder, each, binary[each])

        def one(test: Test) -> Done:
            done = run_test(test, folder, binary[test.package], timeout_s)
            print(f"{done.outcomes[test.id]} {test.id}", file=sys.stderr)
            return done

        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(one, tests))


def write(done: Sequence[Done], wanted: Sequence[str], results: Path) -> None:
    """The results of what is wanted (all if nothing is named), and what failing tests said."""
    outcomes = {test: each for one in done for test, each in one.outcomes.items()}
    lines = [
        f"{outcome}\t{test}\n"
        for test, outcome in sorted(outcomes.items())
        if not wanted or any(test == each or test.startswith(f"{each}/") for each in wanted)
    ]
    failing = [one.said for one in done if "fail" in one.outcomes.values()]
    results.with_name(f"{results.name}.log").write_text("\n".join(failing))
    results.write_text("".join(lines))


def main(arguments: Sequence[str]) -> int:
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
    runs.add_argument("--timeout", type=int, default=120, help="seconds, of one top-level test")
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
