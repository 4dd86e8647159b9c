"""Mutation testing with mutmut (`make mutants`): shows changes that the tests do not notice.

    python tools/mutants.py                              all mutants of all rooms; takes hours
    python tools/mutants.py log                          a room of tests/mutants/rooms.toml
    python tools/mutants.py log/index/offset_index.py    a module
    python tools/mutants.py log --sample 80 --seed 3     80 random mutants of the room
    python tools/mutants.py log --again --thorough       unnoticed ones again, with slow tests

mutmut needs packages at their import paths, but `log/` is `kwire.log` here.  So each room gets a
tree with the shape of the installed package in `build/mutants/`.  There mutmut writes all mutants
of a function next to it.  One run shows which tests call which function.  A mutant then runs only
those tests, in a fork of a process that has imported everything: that takes a fraction of a second.

mutmut changes functions and methods, but not module constants, properties and other decorated
functions.  Mutants that mypy refuses (None for a number, a missing argument) could never be
committed.  They are counted (`types`), but they are not tried and belong to no share or sample.
Results stay in the tree.  A noticed mutant is tried again only if its function changes, or with
--all.  The exit status is 1 if a module, or the sample of a room, is below the share of --at-least.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import fnmatch
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TREES = ROOT / "build" / "mutants"
PLAN = ROOT / "tests" / "mutants"

NOTICED = {1, 3, 24, 36, 152, 255, -9, -11, -24}
"""The exit codes of mutmut's results killed, timeout and segfault."""
NEW = None
STOPPED = 2
REFUSED = 37
"""The exit code that marks mutants which the type checker refuses."""
ORDER = "tests.mutants.nearest_first"
LOGGING = r"(?<![\w.])(_logger|log|logger)\.(debug|info|warning|error|exception)\("
CASTS = r"\bcast\("  # only the type checker uses casts


@dataclass(frozen=True)
class Room:
    """Modules, and the tests that have to notice changes in them."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()
    slow: bool = False
    """Whether nearly all tests of the room are slow.  Then slow tests always run."""

    @classmethod
    def read(cls) -> list[Room]:
        """The rooms in tests/mutants/rooms.toml."""
        plan = tomllib.loads((PLAN / "rooms.toml").read_text())
        return [
            cls(
                name,
                tuple(entry["modules"]),
                tuple(entry["tests"]),
                tuple(entry.get("without", ())),
                bool(entry.get("slow", False)),
            )
            for name, entry in plan.items()
        ]

    def files(self) -> list[str]:
        """The modules, as paths in the repository."""
        paths = {path for pattern in self.modules for path in ROOT.glob(pattern)}
        names = sorted(path.relative_to(ROOT).as_posix() for path in paths)
        return [
            name
            for name in names
            if not name.endswith("__init__.py")
            and not any(fnmatch.fnmatch(name, pattern) for pattern in self.without)
        ]

    def test_files(self) -> list[str]:
        """The files of tests, as paths in the repository."""
        paths = [path for pattern in self.tests for path in sorted(ROOT.glob(pattern))]
        return [path.relative_to(ROOT).as_posix() for path in paths]


class Mutant(NamedTuple):
    """One change of one function.  `key` is mutmut's name for it."""

    key: str
    before: str
    after: str

    @property
    def function(self) -> str:
        """The function's name: `Log.append` for the key `kwire.log.log.xǁLogǁappend__mutmut_3`."""
        name = self.key.rpartition("__mutmut_")[0].rpartition(".")[2]
        return name[2:].replace("ǁ", ".") if name.startswith("xǁ") else name[2:]


@dataclass
class MutantTally:
    """The numbers of mutants of one module by their results, and those that nothing noticed."""

    module: str
    total: int
    refused: int = 0
    noticed: int = 0
    equivalent: int = 0
    left: list[Mutant] = dataclasses.field(default_factory=list)

    @property
    def tried(self) -> int:
        return self.noticed + self.equivalent + len(self.left)

    @property
    def share(self) -> float:
        """The noticed share of the mutants that tests can notice."""
        possible = self.noticed + len(self.left)
        return self.noticed / possible if possible else 1.0


# The tree


def import_path(name: str, folders: dict[str, str]) -> Path:
    """The path in the tree: `kwire/log/segment.py` for `log/segment.py`."""
    for package, folder in folders.items():
        if folder != "kwire" and name.startswith(f"{folder}/"):
            return Path(*package.split("."), name[len(folder) + 1 :])
    return Path(name)


def lay_out(tree: Path, room: Room, *, slow: bool) -> dict[str, Path]:
    """Update the tree.  Returns the paths in the tree of the modules to mutate."""
    pyproject = (ROOT / "pyproject.toml").read_text()
    folders = tomllib.loads(pyproject)["tool"]["setuptools"]["package-dir"]
    tree.mkdir(parents=True, exist_ok=True)
    wanted: set[Path] = set()
    for package, folder in folders.items():
        wanted |= copy_folder(ROOT / folder, tree, Path(*package.split(".")))
    wanted |= copy_folder(ROOT / "tests", tree, Path("tests"))
    for top in ("kwire", "tests"):
        for path in (tree / top).rglob("*"):
            if path.is_file() and path.relative_to(tree) not in wanted:
                path.unlink()
                (tree / "mutants" / path.relative_to(tree)).unlink(missing_ok=True)
    modules = {name: import_path(name, folders) for name in room.files()}
    config = tree / "pyproject.toml"
    text = pyproject + settings(room, modules.values(), slow=slow)
    if not config.exists() or config.read_text() != text:
        config.write_text(text)
    return modules


def copy_folder(source: Path, tree: Path, target: Path) -> set[Path]:
    """Copy changed files with their modification times.  Returns the paths of all files.

    mutmut generates mutants again for files that are newer than their mutants.
    """
    copied = set()
    for path in source.rglob("*"):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        name = target / path.relative_to(source)
        copied.add(name)
        copy = tree / name
        if not copy.exists() or copy.stat().st_mtime_ns != path.stat().st_mtime_ns:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
    return copied


def settings(room: Room, modules: Iterable[Path], *, slow: bool) -> str:
    """mutmut's section of the tree's pyproject.toml."""
    marks = "not java and not spark and not long" + ("" if slow else " and not slow")
    values = {
        "source_paths": ["kwire"],
        "only_mutate": [path.as_posix() for path in modules],
        "do_not_mutate_patterns": [LOGGING, CASTS],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-n", "0"],
        "pytest_add_cli_args_test_selection": [*room.test_files(), "-m", marks],
        # A fork has no threads.  If its parent has run tests, the fork waits for threads that trio
        # keeps.  So mutants are forked from a process that has only collected tests.
        "process_isolation": "forkserver",
        "track_dependencies": False,
        "use_git_change_detection": False,
        "on_dependency_change": "ignore",
        # On a busy machine a slow test must not count as an endless one.  Endless mutants are few.
        "timeout_multiplier": 30.0,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    return "\n[tool.mutmut]\n" + "\n".join(lines) + "\n"


# Mutants that the type checker refuses


def refuse_by_types(tree: Path, modules: Iterable[Path]) -> None:
    """Mark the mutants that mypy refuses with the settings of this repository."""
    command: list[str | Path] = [sys.executable, "-m", "mypy", "--output", "json"]
    command += [f"--config-file={ROOT / 'pyproject.toml'}", "--cache-dir=../types", *modules]
    done = subprocess.run(
        command, cwd=tree / "mutants", stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"mypy failed on the mutants in {tree}:\n{done.stdout[-2000:]}")
    by_module: dict[str, list[tuple[int, str]]] = {path.as_posix(): [] for path in modules}
    for error in map(json.loads, filter(str.strip, done.stdout.splitlines())):
        if error["severity"] == "error" and error["file"] in by_module:
            # The message of a repeated attribute definition ends with a line number.
            message = error["message"].partition(" on line ")[0]
            by_module[error["file"]].append((error["line"], message))
    for name, errors in by_module.items():
        note_refused(tree / "mutants" / name, errors)


def note_refused(path: Path, errors: list[tuple[int, str]]) -> None:
    """Mark the refused mutants of one module.

    Errors that mypy also reports for the unchanged copy of a function are ignored.
    """
    meta = path.with_name(f"{path.name}.meta")
    if not meta.exists():
        return
    copies = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "__mutmut_" in node.name:
            assert node.end_lineno is not None
            copies.update(dict.fromkeys(range(node.lineno, node.end_lineno + 1), node.name))
    reported = {(copies[line], message) for line, message in errors if line in copies}
    refused = {
        name
        for name, message in reported
        if (f"{name.rpartition('__mutmut_')[0]}__mutmut_orig", message) not in reported
    }
    content = json.loads(meta.read_text())
    codes: dict[str, int | None] = content["exit_code_by_key"]
    for key, code in codes.items():
        if key.rpartition(".")[2] in refused:
            codes[key] = REFUSED
        elif code == REFUSED:
            codes[key] = NEW
    meta.write_text(json.dumps(content, indent=4))


# The choice of mutants


def results_of(tree: Path, module: Path) -> dict[str, int | None]:
    """The exit code of each mutant of a module by mutmut's name; None if it was not tried."""
    meta = tree / "mutants" / f"{module}.meta"
    if not meta.exists():
        return {}
    codes: dict[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
    return codes


def generate(tree: Path) -> None:
    """Let mutmut write all mutants without trying any, so that their names are known."""
    program = (
        "from pathlib import Path; import mutmut.__main__ as m; Path('mutants').mkdir(exist_ok=1);"
        "m.copy_src_dir(); m.copy_also_copy_files(); m.create_mutants(2)"
    )
    tests = tree / "mutants" / "tests"
    if tests.exists():
        shutil.rmtree(tests)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tree, stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise SystemExit("mutmut could not write the mutants")


def sampled(room: str, results: dict[str, int | None], options: argparse.Namespace) -> list[str]:
    """The mutants of a room that mypy accepts, or a random sample of them."""
    names = sorted(name for name, code in results.items() if code != REFUSED)
    if options.sample and options.sample < len(names):
        draw = random.Random(f"{options.seed}:{room}")
        names = sorted(draw.sample(names, options.sample))
    return names


def chosen(
    results: dict[str, int | None], names: list[str], options: argparse.Namespace
) -> list[str]:
    """The mutants to try now: unnoticed ones of a sample, or else new ones."""
    if options.all:
        return names
    if options.again:
        return [name for name in names if results[name] not in NOTICED | {NEW}]
    if options.sample:
        return [name for name in names if results[name] not in NOTICED]
    return [name for name in names if results[name] in (NEW, STOPPED)]


def run(tree: Path, names: list[str], options: argparse.Namespace) -> None:
    """Try these mutants.  The output of mutmut goes to a file in the tree."""
    mutmut = Path(sys.executable).with_name("mutmut")
    command: list[str | Path] = [mutmut, "run", "--max-children", str(options.children), *names]
    environment = {**os.environ, "PYTEST_ADDOPTS": f"-p {ORDER}"}
    if options.budget:
        environment["KWIRE_MUTANTS_BUDGET_S"] = str(options.budget)
    log = tree / "mutmut.log"
    print(f"{tree.name}: trying {len(names)} mutants; the progress is in {log}", flush=True)
    with log.open("w") as output, kept_results(tree):
        done = subprocess.run(
            command, cwd=tree, env=environment, stdout=output, stderr=output, check=False
        )
    if done.returncode:
        raise SystemExit(f"mutmut failed:\n{log.read_text()[-4000:]}")


@contextmanager
def kept_results(tree: Path) -> Iterator[None]:
    """Restores earlier results after a run, because mutmut drops them for a new test file."""
    metas = list((tree / "mutants").rglob("*.meta"))
    before = {meta: json.loads(meta.read_text())["exit_code_by_key"] for meta in metas}
    try:
        yield
    finally:
        for meta, codes in before.items():
            content = json.loads(meta.read_text())
            now: dict[str, int | None] = content["exit_code_by_key"]
            for key, code in now.items():
                now[key] = codes.get(key) if code is NEW else code
            meta.write_text(json.dumps(content, indent=4))


# Results


def mutants_of(tree: Path, module: Path, keys: Iterable[str]) -> Iterator[Mutant]:
    """The mutants with the lines that they change, before and after."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    here = Path.cwd()
    os.chdir(tree)  # mutmut only works in the present folder
    try:
        for key in keys:
            diff = get_diff_for_mutant(key, path=module).splitlines()[2:]
            before = [line[1:].strip() for line in diff if line.startswith("-")]
            after = [line[1:].strip() for line in diff if line.startswith("+")]
            yield Mutant(key, " ".join(before), " ".join(after))
    finally:
        os.chdir(here)


WORDS = re.compile(
    r"""(?:\bmessage=)?(?:f?"(?:[^"\\]|\\.)* (?:[^"\\]|\\.)*"|\bstr\((?:error|problem)\))"""
)
"""Text of an error for people: a literal with spaces, or the message of another error."""
NO_WORDS = ("", "None", "message=None", "str(None)")
"""The texts that a mutant may have instead."""


def is_wording(mutant: Mutant) -> bool:
    """Whether a mutant only changes or removes text for people."""
    if WORDS.search(mutant.before) is None:
        return False
    after = squeezed(mutant.after)
    return any(after == squeezed(WORDS.sub(no_words, mutant.before)) for no_words in NO_WORDS) or (
        squeezed(WORDS.sub("", mutant.after)) == squeezed(WORDS.sub("", mutant.before))
    )


def squeezed(line: str) -> str:
    """The line without spaces, and without commas of removed arguments."""
    return re.sub(r",+(?=\))|^,", "", re.sub(r"\s", "", line))


class Equivalent(NamedTuple):
    """An entry of equivalent.toml."""

    module: str
    function: str
    before: str
    after: str


def known_equivalents() -> set[Equivalent]:
    """The mutants of equivalent.toml.  Ends the program if an entry lacks a field."""
    entries = tomllib.loads((PLAN / "equivalent.toml").read_text()).get("equivalent", [])
    for entry in entries:
        if entry.keys() != {*Equivalent._fields, "reason"} or not entry["reason"].strip():
            raise SystemExit(f"equivalent.toml needs {Equivalent._fields} and reason: {entry}")
    return {Equivalent(*(entry[name] for name in Equivalent._fields)) for entry in entries}


def tally(
    tree: Path, module: str, path: Path, known: set[Equivalent], names: Iterable[str]
) -> MutantTally:
    """Count the results of those mutants of a module that are in `names`, from all runs."""
    results = results_of(tree, path)
    selected = {name: results[name] for name in names if name in results}
    tried = {key: code for key, code in selected.items() if code not in (NEW, STOPPED)}
    refused = sum(code == REFUSED for code in results.values())
    noticed = sum(code in NOTICED for code in tried.values())
    counts = MutantTally(module, len(results), refused, noticed)
    unnoticed = [key for key, code in tried.items() if code not in NOTICED]
    for mutant in mutants_of(tree, path, unnoticed):
        change = Equivalent(module, mutant.function, mutant.before, mutant.after)
        if is_wording(mutant) or change in known:
            counts.equivalent += 1
        else:
            counts.left.append(mutant)
    return counts


def report(room: str, tallies: list[MutantTally], options: argparse.Namespace) -> bool:
    """Print the survivors and a table.  Returns whether all shares are high enough."""
    total = together(room, tallies)
    for each in tallies:
        for mutant in each.left:
            print(f"\n{each.module} {mutant.function}  {mutant.key}")
            print(f"  - {mutant.before}\n  + {mutant.after}")
    print(f"\n{'module':44} mutants  types  tried  noticed  equivalent  left   share")
    for each in [*(each for each in tallies if each.tried or not options.sample), total]:
        print(
            f"{each.module:44} {each.total:7} {each.refused:6} {each.tried:6} {each.noticed:8} "
            f"{each.equivalent:11} {len(each.left):5}  {each.share:6.1%}"
        )
    judged = [total] if options.sample else tallies
    low = [each.module for each in judged if each.tried and each.share < options.at_least]
    if low:
        print(f"\nbelow {options.at_least:.0%}: {', '.join(low)}")
    return not low


def together(room: str, tallies: list[MutantTally]) -> MutantTally:
    """The sums over a room's modules."""
    total = MutantTally(f"{room}, together", 0)
    for each in tallies:
        for name in ("total", "refused", "noticed", "equivalent", "left"):
            setattr(total, name, getattr(total, name) + getattr(each, name))
    return total


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", help="rooms or modules; all by default")
    parser.add_argument("--sample", type=int, help="try so many mutants of each room")
    parser.add_argument("--seed", default="1", help="seed of the sample")
    parser.add_argument("--again", action="store_true", help="try unnoticed mutants again")
    parser.add_argument("--all", action="store_true", help="try all mutants again")
    parser.add_argument("--thorough", action="store_true", help="run slow tests too")
    parser.add_argument("--budget", type=float, help="seconds of tests per mutant, nearest first")
    parser.add_argument("--only-tell", action="store_true", help="report earlier results only")
    parser.add_argument("--children", type=int, default=1, help="mutants tried at a time")
    parser.add_argument(
        "--at-least", type=float, default=0.95, help="required share of noticed mutants"
    )
    return parser.parse_args()


def wanted(room: Room, what: list[str]) -> list[str]:
    """The room's modules among the arguments."""
    everything = not what or room.name in what
    return [name for name in room.files() if everything or name in what]


def try_room(
    room: Room, names: list[str], known: set[Equivalent], options: argparse.Namespace
) -> bool:
    """Try mutants of these modules and report.  Returns whether enough were noticed."""
    tree = TREES / room.name
    paths = lay_out(tree, room, slow=room.slow or options.thorough)
    if not options.only_tell:
        generate(tree)
        refuse_by_types(tree, [paths[name] for name in names])
    results = {key: code for name in names for key, code in results_of(tree, paths[name]).items()}
    selected = sampled(room.name, results, options)
    if not options.only_tell and (keys := chosen(results, selected, options)):
        run(tree, keys, options)
    tallies = [tally(tree, name, paths[name], known, selected) for name in names]
    return report(room.name, tallies, options)


def main() -> int:
    """Try the chosen mutants, and report those that the tests do not notice."""
    options = arguments()
    rooms = {room.name: room for room in Room.read()}
    known = rooms.keys() | {name for room in rooms.values() for name in room.files()}
    if unknown := set(options.what) - known:
        raise SystemExit(f"not in {PLAN / 'rooms.toml'}: {', '.join(unknown)}")
    equivalents = known_equivalents()
    enough = True
    for room in rooms.values():
        if names := wanted(room, options.what):
            enough = try_room(room, names, equivalents, options) and enough
    return 0 if enough else 1


if __name__ == "__main__":
    raise SystemExit(main())
