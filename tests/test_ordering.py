"""The order of the test files is the seed's, and the last of them are short."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ordering import SESSIONS, drawn, piece_of

ROOT = Path(__file__).resolve().parent.parent

FILES = {f"tests/test_{number}.py": number % 4 == 0 for number in range(60)}


def test_seed_gives_one_order_whatever_order_the_files_came_in() -> None:
    backwards = dict(reversed(FILES.items()))
    assert drawn(FILES, "1") == drawn(backwards, "1")
    assert drawn(FILES, "1") != drawn(FILES, "2")
    assert sorted(drawn(FILES, "1")) == sorted(FILES)


def test_last_third_has_short_files_only_and_the_rest_is_mixed() -> None:
    order = [FILES[name] for name in drawn(FILES, "1")]
    assert not any(order[40:])
    assert sum(order) == 15
    assert True in order[:10]
    assert False in order[:10]


def test_run_of_long_files_only_keeps_them_all() -> None:
    only_long = dict.fromkeys(FILES, True)
    assert sorted(drawn(only_long, "3")) == sorted(FILES)
    assert drawn({}, "3") == []


def test_files_that_share_a_spark_session_come_first() -> None:
    shared = {"tests/spark/connector/test_a.py": True, "tests/pipeline/test_following.py": True}
    order = drawn({**FILES, **shared, "tests/pipeline/test_c_kills.py": True}, "1")
    assert set(order[:2]) == set(shared)


def test_session_folders_are_those_whose_tests_use_spark(
    request: pytest.FixtureRequest,
) -> None:
    """Of all files that this run has collected."""
    used: dict[str, bool] = {}
    for item in request.session.items:
        file = item.nodeid.partition("::")[0]
        used[file] = used.get(file, False) or "spark" in getattr(item, "fixturenames", ())
    on_one = {file for file, is_used in used.items() if is_used}
    assert {file for file in used if piece_of(file).endswith(" Spark session")} == on_one


def test_garbage_collector_runs_but_skips_the_collected_tests() -> None:
    """Collecting the tests leaves millions of objects that live until the run ends."""
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def collected(*arguments: str) -> list[str]:
    """The files of a run, in their order; not with the options that this run was given."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", *arguments]
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=own)
    nodes = (line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line)
    return list(dict.fromkeys(nodes))


@pytest.mark.slow
def test_folders_run_in_the_order_of_the_seed_and_named_files_as_named() -> None:
    one, other = (collected("tests/txn", f"--seed={seed}") for seed in (1, 2))
    assert one != other
    assert sorted(one) == sorted(other)
    named = ["tests/test_tidy.py", "tests/txn/test_records.py", "tests/txn/test_answers.py"]
    assert collected(*named) == named


def test_each_file_is_a_work_unit_but_a_sessions_files_are_one_unit() -> None:
    pieces = {name: piece_of(name) for folder in SESSIONS.values() for name in folder}
    assert set(pieces.values()) == set(SESSIONS)
    assert piece_of("tests/spark/connector/test_gaps.py") in SESSIONS
    for alone in ("tests/log/test_ends.py", "tests/pipeline/archiving/test_archive_kills.py"):
        assert piece_of(alone) == alone


@pytest.mark.slow
def test_one_worker_runs_all_files_of_a_work_unit() -> None:
    """Of tests that happen to use no session."""
    files = ["archiving/test_archive_command", "querying/test_query", "audit/test_audit_command"]
    command = [sys.executable, "-m", "pytest", "-v", "-n", "2", "--dist", "loadfile"]
    command += ["-k", "refused_with_a_reason or contradictory"]
    command += [f"tests/pipeline/{name}.py" for name in files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    passed = re.findall(r"^\[(gw\d)\].* PASSED (\S+)::", done.stdout, re.MULTILINE)
    workers = {file: worker for worker, file in passed}
    assert len(set(passed)) == len(workers) == 3
    archive, query, audit = (workers[f"tests/pipeline/{name}.py"] for name in files)
    assert archive == query != audit
