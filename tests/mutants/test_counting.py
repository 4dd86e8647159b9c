"""`make mutants` leaves texts for people, and mutants that mypy refuses, out of its shares."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from tools.mutants import (
    NEW,
    REFUSED,
    Mutant,
    MutantTally,
    is_wording,
    kept_results,
    note_refused,
    report,
    sampled,
)

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
def test_mutant_that_only_changes_a_text_is_wording(before: str, after: str, wording: bool) -> None:
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


def test_mutant_is_refused_by_errors_that_its_original_lacks(module: Path) -> None:
    everywhere = [(line, "defined before") for line in (2, 5, 8, 11)]
    note_refused(module, [*everywhere, (5, "None is no int"), (11, "of no mutant")])
    assert codes(module) == {"m.x_f__mutmut_1": REFUSED, "m.x_f__mutmut_2": NEW}


def test_earlier_results_are_kept_when_mutmut_drops_them(module: Path) -> None:
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


def test_sample_depends_on_the_seed_and_has_no_refused_mutant() -> None:
    results: dict[str, int | None] = {f"m{i % 3}.x_f__mutmut_{i}": NEW for i in range(60)}
    results |= {f"m0.x_g__mutmut_{i}": REFUSED for i in range(60)}
    first, second = (
        sampled("room", results, argparse.Namespace(sample=12, seed=seed)) for seed in "12"
    )
    assert first == sampled("room", results, argparse.Namespace(sample=12, seed="1")) != second
    assert len(set(first)) == 12
    assert all("x_f" in name for name in first)


def test_share_is_checked_per_sample_or_else_per_module(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tallies = [
        MutantTally("a.py", 60, refused=20, noticed=38, equivalent=1, left=[Mutant("k", "1", "2")]),
        MutantTally("b.py", 9, noticed=1, left=[Mutant("k", "1", "2")]),
        MutantTally("c.py", 9),
    ]
    options = argparse.Namespace(sample=None, at_least=0.95)
    assert not report("room", tallies, options)
    assert capsys.readouterr().out.endswith("below 95%: b.py\n")
    assert report("room", tallies, argparse.Namespace(sample=42, at_least=0.95))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert [row[0] for row in rows] == ["a.py", "b.py", "room,"]
    assert rows[-1][2:] == ["78", "20", "42", "39", "1", "2", "95.1%"]
