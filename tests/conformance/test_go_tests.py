"""Tests the runner of Go tests: which tests it runs, and how it reads their output."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from kwire.conformance.clients import go_tests
from kwire.conformance.clients.go_tests import ProcessResult

SUITES = sorted(path.parent for path in Path(go_tests.__file__).parent.glob("*-go/run"))

MODULE = {
    "go.mod": "module example.com/four\n\ngo 1.21\n",
    "how/ends/ends_test.go": """package ends

import "testing"

func TestBoth(t *testing.T) {
	t.Run("good one", func(t *testing.T) {})
	t.Run("bad", func(t *testing.T) { t.Error("this is wrong") })
	t.Run("worse", func(t *testing.T) { panic("not to be run") })
}

func TestPanic(t *testing.T) {
	t.Run("before", func(t *testing.T) {})
	t.Run("inside", func(t *testing.T) { panic("all is lost") })
}

func TestSkipped(t *testing.T) { t.Skip("not here") }

func TestSkippedToo(t *testing.T) { t.Error("not chosen, though its name begins alike") }

func TestHangs(t *testing.T) { select {} }
""",
}
TESTS = """# what is run
-how/ends TestBoth/worse
how/ends TestBoth
how/ends TestHangs
how/ends TestPanic
how/ends TestSkipped
"""


def event(action: str, test: str | None = None, output: str | None = None) -> str:
    fields = {"Action": action, "Test": test, "Output": output}
    return json.dumps({name: value for name, value in fields.items() if value is not None})


def test_go_test_that_did_not_end_failed() -> None:
    events = [
        event("start"),
        event("run", "TestA"),
        event("run", "TestA/b"),
        event("pass", "TestA/b"),
        event("run", "TestA/c"),
        event("output", "TestA/c", "panic: no more\n"),
        event("fail"),
    ]
    done = go_tests.outcomes_of(go_tests.GoTest("pkg", "TestA"), events)
    assert done.outcomes == {"pkg TestA": "fail", "pkg TestA/b": "pass", "pkg TestA/c": "fail"}
    assert done.output == "panic: no more\n"


def test_incomplete_line_counts_as_output() -> None:
    events = [event("run", "TestA"), event("output", "TestA", "slow\n"), '{"Action":"outp']
    done = go_tests.outcomes_of(go_tests.GoTest("pkg", "TestA"), events)
    assert done.outcomes == {"pkg TestA": "fail"}
    assert done.output == 'slow\n{"Action":"outp'


def test_go_test_that_never_began_failed() -> None:
    assert go_tests.outcomes_of(go_tests.GoTest("pkg", "TestA"), []).outcomes == {
        "pkg TestA": "fail"
    }


def test_line_without_a_test_is_refused() -> None:
    with pytest.raises(ValueError, match="not a test: 'pkg/kgo'"):
        go_tests.parse("pkg/kgo\n")


def test_wanted_ids_select_their_top_level_tests() -> None:
    tests = go_tests.parse(TESTS)
    assert tests[0] == go_tests.GoTest("how/ends", "TestBoth", ("how/ends TestBoth/worse",))
    assert go_tests.chosen(tests, []) == tests
    assert go_tests.chosen(tests, ["how/ends TestBoth/bad", "how/ends TestBoth"]) == tests[:1]
    with pytest.raises(ValueError, match="no such test: how/ends TestNone"):
        go_tests.chosen(tests, ["how/ends TestNone/x"])


def test_results_have_wanted_tests_and_log_has_failed_output(tmp_path: Path) -> None:
    results = tmp_path / "results"
    done = [
        ProcessResult({"p TestB/two": "fail", "p TestB": "fail", "p TestB/t": "pass"}, "bad"),
        ProcessResult({"p TestA": "pass"}, "good"),
    ]
    go_tests.write(done, [], results)
    assert results.read_text().splitlines() == [
        *("pass\tp TestA", "fail\tp TestB", "pass\tp TestB/t", "fail\tp TestB/two"),
    ]
    assert (tmp_path / "results.log").read_text() == "bad"
    go_tests.write(done, ["p TestB/t"], results)
    assert results.read_text() == "pass\tp TestB/t\n"


@pytest.mark.long  # Go compiles its library first, where it has no cache
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_panic_or_hang_of_a_go_test_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in MODULE.items():
        path = tmp_path / "module" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "tests.txt").write_text(TESTS)
    monkeypatch.setenv("GOPROXY", "off")
    paths = [str(tmp_path / name) for name in ("module", "tests.txt", "results")]
    assert go_tests.main(["run", "--timeout", "5", "--at-once", "2", *paths]) == 0
    assert (tmp_path / "results").read_text().splitlines() == [
        "fail\thow/ends TestBoth",
        "fail\thow/ends TestBoth/bad",
        "pass\thow/ends TestBoth/good_one",
        "skip\thow/ends TestBoth/worse",
        "fail\thow/ends TestHangs",
        "fail\thow/ends TestPanic",
        "pass\thow/ends TestPanic/before",
        "fail\thow/ends TestPanic/inside",
        "skip\thow/ends TestSkipped",
    ]
    output = (tmp_path / "results.log").read_text()
    for words in ("this is wrong", "all is lost", "test timed out after 5s"):
        assert words in output


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_sources_that_do_not_compile_exit_with_1(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "go.mod").write_text(MODULE["go.mod"])
    (tmp_path / "ends").mkdir()
    (tmp_path / "ends" / "ends_test.go").write_text("package ends\n\nfunc Test\n")
    (tmp_path / "tests.txt").write_text("ends TestA\n")
    paths = [str(tmp_path), str(tmp_path / "tests.txt"), str(tmp_path / "results")]
    assert go_tests.main(["run", *paths]) == 1
    assert not (tmp_path / "results").exists()
    assert "go_tests: Command" in capfd.readouterr().err


def test_sources_that_cannot_be_downloaded_exit_with_69(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # without Go
    assert go_tests.main(["source", "example.com/one@v1.0.0", "h1:x"]) == os.EX_UNAVAILABLE
    assert "'go'" in capfd.readouterr().err


def test_sources_with_another_checksum_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "go").write_text('#!/bin/sh\necho \'{"Dir": "/", "Sum": "h1:y"}\'\n')
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert go_tests.main(["source", "example.com/one@v1.0.0", "h1:x"]) == os.EX_UNAVAILABLE
    assert "example.com/one@v1.0.0 is h1:y, not h1:x" in capfd.readouterr().err
    assert not (tmp_path / "kwire" / "clients" / "one-v1.0.0").exists()


@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.name)
def test_every_test_of_the_allow_list_is_run(suite: Path) -> None:
    tests = go_tests.parse((suite / "tests.txt").read_text())
    allowed = [
        line for line in (suite / "allow.txt").read_text().splitlines() if not line.startswith("#")
    ]
    assert go_tests.chosen(tests, allowed)
    assert allowed == sorted(set(allowed))
    assert not {subtest for test in tests for subtest in test.left_out} & set(allowed)
