"""What the tests do not notice: mutation testing by mutmut (`make mutants`).

    python tools/mutants.py                              every room, every mutant: hours
    python tools/mutants.py log                          a room of tests/mutants/rooms.toml
    python tools/mutants.py log/index/offset_index.py    a module
    python tools/mutants.py log --sample 80 --seed 3     so many mutants of the room, by chance
    python tools/mutants.py log --again --thorough       what went unnoticed, with slow tests

mutmut wants packages where they are imported from, and `log/` is `kwire.log` here: so each room
gets a tree of the shape of the installed package, below `build/mutants/`.  There mutmut writes all
mutants of a function beside it, learns from one run which tests call which function, and runs
those in a fork of a process that has everything imported: a mutant costs a fraction of a second.

Mutated are functions and methods; not module constants, properties and other decorated functions.
What mypy refuses (None for a number, an argument left out) no change could land with: such mutants
are counted (`types`), and neither tried nor part of a share or sample.
Results stay in the tree: a mutant that was noticed is tried again only when its function changes
(or with --all).  The status is 1 where a module that was tried, or the sample of a room, is below
the share of --at-least.
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
"""What mutmut calls killed, timeout and segfault, as exit codes."""
NEW = None
STOPPED = 2
REFUSED = 37
"""By the type checker."""
ORDER = "tests.mutants.nearest_first"
LOGGING = r"(?<![\w.])(_logger|log|logger)\.(debug|info|warning|error|exception)\("
CASTS = r"\bcast\("  # for the type checker alone


@dataclass(frozen=True)
class Room:
    """Modules, and the tests that have to notice what is changed in them."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()
    slow: bool = False
    """Whether the room's tests are nearly all slow: then they always run."""

    @classmethod
    def read(cls) -> list[Room]:
        plan = tomllib.loads((PLAN / "rooms.toml").read_text())
        return [
            cls(
                name,
                tuple(told["modules"]),
                tuple(told["tests"]),
                tuple(told.get("without", ())),
                bool(told.get("slow", False)),
            )
            for name, told in plan.items()
        ]

    def files(self) -> list[str]:
        """The modules, as paths in the repository."""
        found = {path for pattern in self.modules for path in ROOT.glob(pattern)}
        names = sorted(path.relative_to(ROOT).as_posix() for path in found)
        return [
            name
            for name in names
            if not name.endswith("__init__.py")
            and not any(fnmatch.fnmatch(name, pattern) for pattern in self.without)
        ]

    def test_files(self) -> list[str]:
        found = [path for pattern in self.tests for path in sorted(ROOT.glob(pattern))]
        return [path.relative_to(ROOT).as_posix() for path in found]


class Mutant(NamedTuple):
    """One change to one function; `key` is mutmut's name for it."""

    key: str
    before: str
    after: str

    @property
    def function(self) -> str:
        """`Log.append`, of `kwire.log.log.xǁLogǁappend__mutmut_3`."""
        name = self.key.rpartition("__mutmut_")[0].rpartition(".")[2]
        return name[2:].replace("ǁ", ".") if name.startswith("xǁ") else name[2:]


@dataclass
class Tally:
    """Of one module."""

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
        """Of those that can be noticed."""
        possible = self.noticed + len(self.left)
        return self.noticed / possible if possible else 1.0


# The tree


def import_path(name: str, folders: dict[str, str]) -> Path:
    """`log/segment.py` -> `kwire/log/segment.py`."""
    for package, folder in folders.items():
        if folder != "kwire" and name.startswith(f"{folder}/"):
            return Path(*package.split("."), name[len(folder) + 1 :])
    return Path(name)


def lay_out(tree: Path, room: Room, *, slow: bool) -> dict[str, Path]:
    """Bring the tree up to date; gives the modules to mutate as they are named there."""
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
    """Copy what differs, with its time: mutmut makes mutants anew of what is newer than they."""
    copied = set()
    for path in source.rglob("*"):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        name = target / path.relative_to(source)
        copied.add(name)
        there = tree / name
        if not there.exists() or there.stat().st_mtime_ns != path.stat().st_mtime_ns:
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, there)
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
        # A fork of a process that has run tests would lack its threads (trio keeps some), and wait
        # for them: so mutants are forked from one that has only collected them.
        "process_isolation": "forkserver",
        "track_dependencies": False,
        "use_git_change_detection": False,
        "on_dependency_change": "ignore",
        # A busy machine must not pass for a mutant that never ends: those are few.
        "timeout_multiplier": 30.0,
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    return "\n[tool.mutmut]\n" + "\n".join(lines) + "\n"


# What the types notice


def refuse_by_types(tree: Path, modules: Iterable[Path]) -> None:
    """Mark the mutants that mypy, as strict as it is for everything here, refuses."""
    command: list[str | Path] = [sys.executable, "-m", "mypy", "--output", "json"]
    command += [f"--config-file={ROOT / 'pyproject.toml'}", "--cache-dir=../types", *modules]
    done = subprocess.run(
        command, cwd=tree / "mutants", stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"mypy failed on the mutants in {tree}:\n{done.stdout[-2000:]}")
    found: dict[str, list[tuple[int, str]]] = {path.as_posix(): [] for path in modules}
    for each in map(json.loads, filter(str.strip, done.stdout.splitlines())):
        if each["severity"] == "error" and each["file"] in found:
            # where a mutant says again what an attribute is, the message names a line
            message = each["message"].partition(" on line ")[0]
            found[each["file"]].append((each["line"], message))
    for name, errors in found.items():
        note_refused(tree / "mutants" / name, errors)


def note_refused(path: Path, errors: list[tuple[int, str]]) -> None:
    """Of one module; what mypy says of the unchanged copy of a function, too, is none of it."""
    meta = path.with_name(f"{path.name}.meta")
    if not meta.exists():
        return
    copies = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "__mutmut_" in node.name:
            assert node.end_lineno is not None
            copies.update(dict.fromkeys(range(node.lineno, node.end_lineno + 1), node.name))
    said = {(copies[line], message) for line, message in errors if line in copies}
    refused = {
        name
        for name, message in said
        if (f"{name.rpartition('__mutmut_')[0]}__mutmut_orig", message) not in said
    }
    told = json.loads(meta.read_text())
    codes: dict[str, int | None] = told["exit_code_by_key"]
    for key, code in codes.items():
        if key.rpartition(".")[2] in refused:
            codes[key] = REFUSED
        elif code == REFUSED:
            codes[key] = NEW
    meta.write_text(json.dumps(told, indent=4))


# Which mutants


def results_of(tree: Path, module: Path) -> dict[str, int | None]:
    """What became of each of a module's mutants, by mutmut's name; None: not tried."""
    meta = tree / "mutants" / f"{module}.meta"
    if not meta.exists():
        return {}
    found: dict[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
    return found


def generate(tree: Path) -> None:
    """Have mutmut write the mutants, without trying any, so that their names are known."""
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
        raise SystemExit("mutmut could not make the mutants")


def sampled(room: str, results: dict[str, int | None], options: argparse.Namespace) -> list[str]:
    """Of a room's mutants those that this run is about: that mypy lets pass, drawn by chance."""
    names = sorted(name for name, code in results.items() if code != REFUSED)
    if options.sample and options.sample < len(names):
        draw = random.Random(f"{options.seed}:{room}")
        names = sorted(draw.sample(names, options.sample))
    return names


def chosen(
    results: dict[str, int | None], names: list[str], options: argparse.Namespace
) -> list[str]:
    """Those to be tried now: of a sample whatever was not noticed before, else what is new."""
    if options.all:
        return names
    if options.again:
        return [name for name in names if results[name] not in NOTICED | {NEW}]
    if options.sample:
        return [name for name in names if results[name] not in NOTICED]
    return [name for name in names if results[name] in (NEW, STOPPED)]


def run(tree: Path, names: list[str], options: argparse.Namespace) -> None:
    """Try these mutants; what mutmut says goes to a file of the tree."""
    mutmut = Path(sys.executable).with_name("mutmut")
    command: list[str | Path] = [mutmut, "run", "--max-children", str(options.children), *names]
    environment = {**os.environ, "PYTEST_ADDOPTS": f"-p {ORDER}"}
    if options.budget:
        environment["KWIRE_MUTANTS_BUDGET_S"] = str(options.budget)
    log = tree / "mutmut.log"
    print(f"{tree.name}: trying {len(names)} mutants; {log} tells how it goes", flush=True)
    with log.open("w") as output, kept_results(tree):
        done = subprocess.run(
            command, cwd=tree, env=environment, stdout=output, stderr=output, check=False
        )
    if done.returncode:
        raise SystemExit(f"mutmut failed:\n{log.read_text()[-4000:]}")


@contextmanager
def kept_results(tree: Path) -> Iterator[None]:
    """mutmut forgets them all when there is another test file: what was noticed is noticed still,
    and what was not is not forgotten."""
    metas = list((tree / "mutants").rglob("*.meta"))
    before = {meta: json.loads(meta.read_text())["exit_code_by_key"] for meta in metas}
    try:
        yield
    finally:
        for meta, codes in before.items():
            told = json.loads(meta.read_text())
            now: dict[str, int | None] = told["exit_code_by_key"]
            for key, code in now.items():
                now[key] = codes.get(key) if code is NEW else code
            meta.write_text(json.dumps(told, indent=4))


# What became of them


def mutants_of(tree: Path, module: Path, keys: Iterable[str]) -> Iterator[Mutant]:
    """The first line that each changes, before and after."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    here = Path.cwd()
    os.chdir(tree)  # mutmut knows no other way
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
"""What people read of an error: a literal with spaces, or another error's message."""
NO_WORDS = ("", "None", "message=None", "str(None)")
"""What a mutant may have instead."""


def is_wording(mutant: Mutant) -> bool:
    """Whether only words for people changed, or went."""
    if WORDS.search(mutant.before) is None:
        return False
    after = squeezed(mutant.after)
    return any(after == squeezed(WORDS.sub(no_words, mutant.before)) for no_words in NO_WORDS) or (
        squeezed(WORDS.sub("", mutant.after)) == squeezed(WORDS.sub("", mutant.before))
    )


def squeezed(line: str) -> str:
    """Without spaces, and the commas that an argument leaves behind."""
    return re.sub(r",+(?=\))|^,", "", re.sub(r"\s", "", line))


class Equivalent(NamedTuple):
    """A line of equivalent.toml."""

    module: str
    function: str
    before: str
    after: str


def known_equivalents() -> set[Equivalent]:
    told = tomllib.loads((PLAN / "equivalent.toml").read_text()).get("equivalent", [])
    for each in told:
        if each.keys() != {*Equivalent._fields, "reason"} or not each["reason"].strip():
            raise SystemExit(f"equivalent.toml wants {Equivalent._fields} and reason: {each}")
    return {Equivalent(*(each[name] for name in Equivalent._fields)) for each in told}


def tally(
    tree: Path, module: str, path: Path, known: set[Equivalent], names: Iterable[str]
) -> Tally:
    """Count what was tried of one module, among these names, in this run and before."""
    results = results_of(tree, path)
    about = {name: results[name] for name in names if name in results}
    tried = {key: code for key, code in about.items() if code not in (NEW, STOPPED)}
    refused = sum(code == REFUSED for code in results.values())
    noticed = sum(code in NOTICED for code in tried.values())
    found = Tally(module, len(results), refused, noticed)
    unnoticed = [key for key, code in tried.items() if code not in NOTICED]
    for mutant in mutants_of(tree, path, unnoticed):
        change = Equivalent(module, mutant.function, mutant.before, mutant.after)
        if is_wording(mutant) or change in known:
            found.equivalent += 1
        else:
            found.left.append(mutant)
    return found


def tell(room: str, tallies: list[Tally], options: argparse.Namespace) -> bool:
    """Print the survivors and a table; whether every module, or the sample, has enough noticed."""
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


def together(room: str, tallies: list[Tally]) -> Tally:
    """The sums of a room's modules."""
    total = Tally(f"{room}, together", 0)
    for each in tallies:
        for name in ("total", "refused", "noticed", "equivalent", "left"):
            setattr(total, name, getattr(total, name) + getattr(each, name))
    return total


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", help="rooms or modules; all of them by default")
    parser.add_argument("--sample", type=int, help="so many mutants of each room's")
    parser.add_argument("--seed", default="1", help="draws the sample")
    parser.add_argument("--again", action="store_true", help="those that went unnoticed before")
    parser.add_argument("--all", action="store_true", help="also those that were tried before")
    parser.add_argument("--thorough", action="store_true", help="let slow tests notice, too")
    parser.add_argument("--budget", type=float, help="seconds of tests for a mutant, the nearest")
    parser.add_argument("--only-tell", action="store_true", help="what was found before")
    parser.add_argument("--children", type=int, default=1, help="mutants tried beside one another")
    parser.add_argument("--at-least", type=float, default=0.95, help="share to be noticed")
    return parser.parse_args()


def wanted(room: Room, what: list[str]) -> list[str]:
    """The room's modules that were asked for."""
    everything = not what or room.name in what
    return [name for name in room.files() if everything or name in what]


def try_room(
    room: Room, names: list[str], known: set[Equivalent], options: argparse.Namespace
) -> bool:
    """Try mutants of these modules and tell; whether enough were noticed."""
    tree = TREES / room.name
    paths = lay_out(tree, room, slow=room.slow or options.thorough)
    if not options.only_tell:
        generate(tree)
        refuse_by_types(tree, [paths[name] for name in names])
    found = {key: code for name in names for key, code in results_of(tree, paths[name]).items()}
    about = sampled(room.name, found, options)
    if not options.only_tell and (keys := chosen(found, about, options)):
        run(tree, keys, options)
    tallies = [tally(tree, name, paths[name], known, about) for name in names]
    return tell(room.name, tallies, options)


def main() -> int:
    """Try what the arguments choose, and tell what the tests have not noticed."""
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
