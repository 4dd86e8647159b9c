"""What `make mutants` leaves out of its shares: words for people, and what the types refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.mutants import NEW, REFUSED, Mutant, is_wording, kept_results, note_refused

RAISED = 'raise LogError(error, message="Partition was not added", )'


@pytest.mark.parametrize(
    ("before", "after", "wording"),
    [
        (RAISED, "raise LogError(error, message=None, )", True),
        (RAISED, "raise LogError(error, )", True),
        (RAISED, 'raise LogError(error, message="XXPartition was not addedXX", )', True),
        (RAISED, 'raise LogError(None, message="Partition was not added", )', False),
        ('message="Partition was not added", )', ")", True),
        ('raise OSError(2, f"no {name} here")', "raise OSError(2, None)", True),
        ('raise OSError(2, f"no {name} here")', 'raise OSError(3, f"no {name} here")', False),
        ('write("word")', 'write("XXwordXX")', False),
        ("return size < 1", "return size <= 1", False),
    ],
)
def test_words(before: str, after: str, wording: bool) -> None:
    assert is_wording(Mutant("", before, after)) is wording


MODULE = """\
def x_f__mutmut_orig(a: int) -> int:
    return g(a, 1)

def x_f__mutmut_1(a: int) -> int:
    return g(None, 1)

def x_f__mutmut_2(a: int) -> int:
    return g(a, 2)

def f(a: int) -> int:
    return 0
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "m.py").write_text(MODULE)
    codes = {"m.x_f__mutmut_1": 0, "m.x_f__mutmut_2": REFUSED}
    (tmp_path / "m.py.meta").write_text(json.dumps({"exit_code_by_key": codes}))
    return tmp_path / "m.py"


def codes(module: Path) -> dict[str, int | None]:
    found: dict[str, int | None] = json.loads(module.with_name("m.py.meta").read_text())[
        "exit_code_by_key"
    ]
    return found


def test_refused_is_what_mypy_says_of_the_mutant_and_not_of_its_original(module: Path) -> None:
    everywhere = [(line, "defined before") for line in (2, 5, 8, 11)]
    note_refused(module, [*everywhere, (5, "None is no int"), (11, "of no mutant")])
    assert codes(module) == {"m.x_f__mutmut_1": REFUSED, "m.x_f__mutmut_2": NEW}


def test_what_was_found_is_kept_though_mutmut_forgets(module: Path) -> None:
    (module.parent / "mutants").mkdir()
    module = module.rename(module.parent / "mutants" / "m.py")
    meta = module.with_name("m.py.meta")
    (module.parent.parent / "m.py.meta").rename(meta)
    with kept_results(module.parent.parent):
        now = {"m.x_f__mutmut_1": None, "m.x_f__mutmut_2": 1, "m.x_f__mutmut_3": None}
        meta.write_text(json.dumps({"exit_code_by_key": now}))
    assert codes(module) == {
        "m.x_f__mutmut_1": 0,
        "m.x_f__mutmut_2": 1,
        "m.x_f__mutmut_3": None,
    }
