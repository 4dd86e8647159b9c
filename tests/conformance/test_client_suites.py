"""Tests the runner of client suites, and runs kafka-python's suite."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from kwire.conformance.clients import __main__ as command
from kwire.conformance.clients import more_listeners, pytest_results
from kwire.conformance.clients.more_listeners import SuiteUser
from kwire.conformance.clients.results import (
    AllowList,
    BadFile,
    SuiteComparison,
    SuiteOutcome,
    parse,
)
from kwire.conformance.clients.suites import (
    ClientSuite,
    NotObtained,
    NotRun,
    properties,
    suites,
)
from kwire.registry.client.rest import RegistryClient
from kwire.testing import Kafka
from tests.polling import until
from tests.security.scram_client import can_log_in

SUITES = suites()

MakeSuite = Callable[..., ClientSuite]


@pytest.fixture
def make_suite(tmp_path: Path) -> MakeSuite:
    """A suite whose `run` is a shell script, with these tests on its allow list."""

    def make(script: str, *allowed: str, name: str = "planted") -> ClientSuite:
        folder = tmp_path / "suites" / name
        folder.mkdir(parents=True)
        run = folder / "run"
        run.write_text(f"#!/bin/sh\n{script}\n")
        run.chmod(0o755)
        (folder / "allow.txt").write_text(AllowList((), frozenset(allowed)).text())
        return ClientSuite(folder)

    return make


def script_with_results(*lines: str) -> str:
    """A script that writes these results, as `outcome test`."""
    written = "".join(line.replace(" ", "\\t", 1) + "\\n" for line in lines)
    return f"printf '{written}' > \"$2\""


def test_results_file_is_parsed() -> None:
    outcomes = parse("fail\ta/b: c d\npass\tx[1]\nskip\ty#01\n")
    assert outcomes == {
        "a/b: c d": SuiteOutcome.FAIL,
        "x[1]": SuiteOutcome.PASS,
        "y#01": SuiteOutcome.SKIP,
    }


@pytest.mark.parametrize("text", ["pass x", "passed\tx", "pass\t", "\tx", "\n", "pass\tx\nfail\tx"])
def test_malformed_results_are_refused(text: str) -> None:
    with pytest.raises(BadFile):
        parse(text)


def test_allow_list_is_read_and_extended(tmp_path: Path) -> None:
    path = tmp_path / "allow.txt"
    assert AllowList.read(path).tests == frozenset()
    path.write_text("# why\n\na\nc\n")
    grown = AllowList.read(path).with_tests(["b", "c"])
    grown.write(path)
    assert path.read_text() == "# why\na\nb\nc\n"
    assert AllowList.read(path) == grown


@pytest.mark.parametrize("text", ["b\na\n", "a\na\n", "a\n# between\nb\n"])
def test_malformed_allow_lists_are_refused(text: str) -> None:
    with pytest.raises(BadFile):
        AllowList.parse(text)


def test_properties_are_read_without_comments() -> None:
    assert properties("# why\n\na.b=1\nc = x=y\n") == {"a.b": "1", "c": "x=y"}
    with pytest.raises(ValueError, match="not a setting"):
        properties("a.b 1")


def test_run_reports_lost_and_gained_tests(make_suite: MakeSuite, tmp_path: Path) -> None:
    script = script_with_results("fail broken", "pass new", "pass ok", "fail other", "skip skipped")
    run = make_suite(script, "broken", "gone", "ok", "skipped").run("b:1", tmp_path / "r.tsv")
    assert run.lost == ["broken", "gone", "skipped"]
    assert [run.why(test) for test in run.lost] == ["fail", "not run", "skip"]
    assert run.gained == ["new"]


def test_run_of_named_tests_compares_only_them(make_suite: MakeSuite, tmp_path: Path) -> None:
    suite = make_suite('echo "$@" > "$2.log"; ' + script_with_results("pass one"), "one", "other")
    run = suite.run("b:1", tmp_path / "r.tsv", ("one",))
    assert run.lost == []
    assert run.log.read_text().split() == ["b:1", str(tmp_path / "r.tsv"), "one"]


def test_run_against_earlier_results_requires_what_passed_there(
    make_suite: MakeSuite, tmp_path: Path
) -> None:
    before = tmp_path / "before.tsv"
    before.write_text("pass\tboth\nfail\thanded\npass\tonly there\n")
    script = script_with_results("pass both", "pass handed", "fail only there")
    run = make_suite(script, "listed").run("b:1", tmp_path / "r.tsv", against=before)
    assert (run.lost, run.gained) == (["only there"], ["handed"])


def test_stale_results_file_is_not_used(make_suite: MakeSuite, tmp_path: Path) -> None:
    results = tmp_path / "r.tsv"
    results.write_text("pass\told\n")
    with pytest.raises(NotRun, match="status 0"):
        make_suite("exit 0").run("b:1", results)


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        ('echo no compiler > "$2.log"; exit 7', NotRun, r"status 7\nno compiler"),
        ("exit 69", NotObtained, "could not be obtained"),
        ("echo nonsense > $2", NotRun, "line 1: 'nonsense'"),
    ],
)
def test_suite_that_fails_to_run_raises_not_run(
    make_suite: MakeSuite, tmp_path: Path, script: str, kind: type[NotRun], message: str
) -> None:
    with pytest.raises(kind, match=message):
        make_suite(script).run("b:1", tmp_path / "r.tsv")


def test_suite_that_hangs_is_ended_with_its_children(make_suite: MakeSuite, tmp_path: Path) -> None:
    suite = make_suite("sleep 600 & echo $! > $2.child; wait")
    with pytest.raises(NotRun, match="did not end within"):
        suite.run("b:1", tmp_path / "r.tsv", timeout_s=0.1)
    child = (tmp_path / "r.tsv.child").read_text().strip()

    def has_ended() -> bool:
        state = subprocess.run(["ps", "-o", "stat=", "-p", child], capture_output=True, text=True)
        return state.stdout.strip()[:1] in {"", "Z"}

    until(has_ended)  # the signal is sent, and a busy kernel takes its time to act on it


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Result]:
    """Runs the command with the suites that the test has created."""

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(command, "suites", lambda: suites(tmp_path / "suites"))
        given = [*arguments, "--bootstrap", "b:1", "--report", str(tmp_path / "report")]
        return CliRunner().invoke(command.main, given)

    return call


def test_command_finds_a_planted_failure(
    make_suite: MakeSuite, invoke: Callable[..., Result], tmp_path: Path
) -> None:
    make_suite(script_with_results("pass a", "fail b"), "a", name="fine")
    make_suite(script_with_results("pass a", "fail b", "fail c"), "a", "b")
    assert invoke("fine").exit_code == 0
    done = invoke()
    assert done.exit_code == command.EXIT_LOST
    assert "planted: on the allow list, and did not pass:\n  b (fail)\n" in done.stdout
    cases = ElementTree.parse(tmp_path / "report" / "clients.xml").iterfind(".//testcase[failure]")
    assert [(case.get("classname"), case.get("name")) for case in cases] == [("planted", "b")]


def test_command_update_adds_tests_and_removes_none(
    make_suite: MakeSuite, invoke: Callable[..., Result]
) -> None:
    suite = make_suite(script_with_results("pass a", "fail b", "fail c"), "b")
    assert invoke("--update").exit_code == command.EXIT_LOST
    assert suite.allow_file.read_text() == "a\nb\n"


def test_command_reports_a_suite_that_could_not_run(
    make_suite: MakeSuite, invoke: Callable[..., Result]
) -> None:
    make_suite("exit 2", name="broken")
    make_suite(script_with_results("pass a"), "a", name="fine")
    done = invoke()
    assert done.exit_code == command.EXIT_NOT_RUN
    assert "not run: broken: `run` ended with status 2" in done.stderr
    assert invoke("nobody").exit_code == 2


def test_command_compares_with_another_report(
    make_suite: MakeSuite, invoke: Callable[..., Result], tmp_path: Path
) -> None:
    make_suite(script_with_results("pass a", "fail b"), "b")
    (tmp_path / "apache").mkdir()
    (tmp_path / "apache" / "planted.tsv").write_text("pass\ta\nfail\tb\n")
    assert invoke().exit_code == command.EXIT_LOST
    assert invoke("--against", str(tmp_path / "apache")).exit_code == 0


@pytest.mark.parametrize(
    "options",
    [["--brokers", "3"], ["--zookeeper"], ["--against", ".", "--update"], ["--oracle"]],
)
def test_command_refuses_contradictory_options(
    invoke: Callable[..., Result], options: list[str]
) -> None:
    assert invoke(*options).exit_code == 2


PYTEST_FILE = """
import pytest

@pytest.fixture
def broken():
    raise ValueError("no fixture")

@pytest.fixture
def broken_later():
    yield
    raise ValueError("no end")

def test_good(): pass
def test_bad(): assert 1 == 2, "as planted"
def test_fixture(broken): pass
def test_end(broken_later): pass
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.parametrize("x", [2, 1])
def test_each(x): pass
"""


@pytest.mark.slow
def test_pytest_plugin_writes_results(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PYTEST_FILE)
    folder = Path(pytest_results.__file__).parent
    options = ["-q", "-p", "pytest_results", "--results", "out.tsv"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_it.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stdout
    assert (tmp_path / "out.tsv").read_text().splitlines() == [
        "fail\ttest_it.py::test_bad",
        "pass\ttest_it.py::test_each[1]",
        "pass\ttest_it.py::test_each[2]",
        "fail\ttest_it.py::test_end",
        "fail\ttest_it.py::test_fixture",
        "pass\ttest_it.py::test_good",
        "skip\ttest_it.py::test_skipped",
    ]
    output = (tmp_path / "out.tsv.log").read_text()
    for words in ("as planted", "no fixture", "no end", "test_end (teardown)"):
        assert words in output


def test_suite_users_are_read_and_checked(make_suite: MakeSuite, tmp_path: Path) -> None:
    script = 'printf "pass\\t$SASL_BOOTSTRAP\\n" > "$2"'
    suite = make_suite(script, "h:2")
    users = suite.folder / "sasl-users.properties"
    assert suite.users == []
    users.write_text("# who\nalice=SCRAM-SHA-512 pencil\n")
    assert suite.users == [SuiteUser("alice", "SCRAM-SHA-512", "pencil")]
    users.write_text("alice=PLAIN,SCRAM-SHA-256 pencil\n")
    assert [user.mechanism for user in suite.users] == ["PLAIN", "SCRAM-SHA-256"]
    run = suite.run("b:1", tmp_path / "r.tsv", more={"SASL_BOOTSTRAP": "h:2"})
    assert run.lost == []
    users.write_text("alice=GSSAPI pencil\n")
    with pytest.raises(ValueError, match="GSSAPI is no mechanism"):
        suite.users  # noqa: B018 - it is read


@pytest.mark.slow
def test_broker_with_additional_listeners_accepts_the_suite_users(tmp_path: Path) -> None:
    users = SUITES["kafka-go"].users
    with more_listeners.broker(tmp_path, users, {}, apache=False) as (_, more):
        port = int(more["SASL_BOOTSTRAP"].partition(":")[2])
        for user in users:
            if user.mechanism in more_listeners.HASHES:
                assert can_log_in(port, user.name, user.password, user.mechanism)
                assert not can_log_in(port, user.name, "other", user.mechanism)
        context = ssl.create_default_context(cafile=more["TLS_AUTHORITY"])
        address = "localhost", int(more["TLS_BOOTSTRAP"].partition(":")[2])
        with socket.create_connection(address) as plain:
            context.wrap_socket(plain, server_hostname="localhost").close()


@pytest.mark.slow
def test_suite_that_uses_a_registry_gets_the_address_of_an_empty_one(
    make_suite: MakeSuite, kafka_reset: Kafka
) -> None:
    suite = make_suite("exit 0")
    with command.registry_for(suite, kafka_reset.bootstrap) as variables:
        assert variables == {}
    (suite.folder / "uses-registry.txt").write_text("It does.\n")
    with command.registry_for(suite, kafka_reset.bootstrap) as variables:
        assert RegistryClient(variables["REGISTRY_URL"]).subjects() == []


@pytest.mark.parametrize("name", sorted(SUITES))
def test_suite_folder_has_all_files(name: str) -> None:
    folder = SUITES[name].folder
    assert os.access(folder / "run", os.X_OK)
    assert AllowList.read(folder / "allow.txt").tests, "nothing must pass"
    for file in ("README.md", "findings.md"):
        assert (folder / file).read_text().startswith("# ")
    ours, apaches = (SUITES[name].settings(apache=apache) for apache in (False, True))
    assert ours.items() <= apaches.items(), "Apache Kafka would run with other settings"


@pytest.mark.long
@pytest.mark.slow
def test_kafka_python_suite_passes_its_allow_list(tmp_path: Path) -> None:
    """Its sources are downloaded once from PyPI; the test needs a network only then."""
    suite = SUITES["kafka-python"]
    given = suite.settings(apache=False)
    with more_listeners.broker(tmp_path, suite.users, given, apache=False) as (bootstrap, more):
        try:
            run: SuiteComparison = suite.run(bootstrap, tmp_path / "kafka-python.tsv", more=more)
        except NotObtained as error:
            pytest.skip(str(error))
    assert run.passed, "nothing was run"
    assert run.lost == [], run.log.read_text()
    not_passed = {re.sub(r".*::|\[.*", "", test) for test in run.outcomes.keys() - run.passed}
    findings = (suite.folder / "findings.md").read_text()
    assert set(re.findall(r"\btest_\w+\b(?!\.py)", findings)) == not_passed
