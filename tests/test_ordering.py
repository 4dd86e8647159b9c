"""The order of the test files is the seed's, and the last of them are short."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from tests.conftest import (
    order_files,
    pytest_configure,
    pytest_configure_node,
    pytest_xdist_make_scheduler,
)
from tests.ordering import SESSIONS, drawn, piece_of

FILES = {f"tests/test_{number}.py": number % 4 == 0 for number in range(60)}


def test_seed_gives_one_order_whatever_order_the_files_came_in() -> None:
    backwards = dict(reversed(FILES.items()))
    assert drawn(FILES, "1") == drawn(backwards, "1")
    assert drawn(FILES, "1") != drawn(FILES, "2")
    assert sorted(drawn(FILES, "1")) == sorted(FILES)


def test_workers_take_the_random_seeds_of_the_controller() -> None:
    """They would collect the tests in different orders, and draw at random what no line names."""
    options = {"markexpr": "", "hypothesis_profile": None}
    drawn_here = SimpleNamespace(seed="random", order="random", **options)
    controller = SimpleNamespace(option=drawn_here)
    pytest_configure(cast(pytest.Config, controller))
    node = SimpleNamespace(config=controller, workerinput={})
    pytest_configure_node(cast(WorkerController, node))
    given = SimpleNamespace(seed="random", order="random", **options)
    worker = SimpleNamespace(option=given, workerinput=node.workerinput)
    pytest_configure(cast(pytest.Config, worker))
    assert worker.option == controller.option
    assert "random" not in vars(worker.option).values()


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


class Item(NamedTuple):
    """What is needed of a collected test."""

    nodeid: str

    def iter_markers(self) -> list[pytest.Mark]:
        return [pytest.mark.slow.mark] if "_4" in self.nodeid else []


def ordered(argument: str, seed: str) -> list[str]:
    """The order in which tests run that were collected from a folder or file."""
    items = [Item(f"{name}::test_it") for name in FILES]
    config = SimpleNamespace(args=[argument], option=SimpleNamespace(order=seed))
    order_files(cast("pytest.Config", config), cast("list[pytest.Item]", items))
    return [item.nodeid.partition("::")[0] for item in items]


def test_folders_run_in_the_order_of_the_seed_and_named_files_as_named() -> None:
    is_slow = {name: "_4" in name for name in FILES}
    for seed in ("1", "2"):
        assert ordered("tests", seed) == drawn(is_slow, seed)
    assert ordered(f"{__file__}::test_it", "1") == list(FILES)


def test_this_run_has_the_order_of_its_seed(request: pytest.FixtureRequest) -> None:
    """So pytest calls `order_files`, and nothing changes the order afterwards."""
    config, items = request.config, [*request.session.items]
    before = [item.nodeid for item in items]
    order_files(config, items)
    assert [item.nodeid for item in items] == before


def test_each_file_is_a_work_unit_but_a_sessions_files_are_one_unit() -> None:
    pieces = {name: piece_of(name) for folder in SESSIONS.values() for name in folder}
    assert set(pieces.values()) == set(SESSIONS)
    assert piece_of("tests/spark/connector/test_gaps.py") in SESSIONS
    for alone in ("tests/log/test_ends.py", "tests/pipeline/archiving/test_archive_kills.py"):
        assert piece_of(alone) == alone


class Worker:
    """A worker of xdist, which notes the numbers of the tests that it is to run."""

    gateway = SimpleNamespace(id="worker")
    shutting_down = False

    def __init__(self) -> None:
        self.given: list[int] = []

    def send_runtest_some(self, numbers: list[int]) -> None:
        self.given += numbers

    def shutdown(self) -> None:
        self.shutting_down = True


def test_one_worker_runs_all_files_of_a_work_unit(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["archiving/test_archive_command", "audit/test_audit_command", "querying/test_query"]
    tests = [f"tests/pipeline/{name}.py::test_{number}" for name in names for number in range(3)]
    option = SimpleNamespace(dist="loadfile", tx=["2*popen"], loadscopereorder=False)
    config = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
    log = Producer("session", enabled=False)
    scheduler = pytest_xdist_make_scheduler(cast("pytest.Config", config), log)
    assert scheduler is not None
    workers = [Worker(), Worker()]
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()
    given = [{tests[number].partition("::")[0] for number in worker.given} for worker in workers]
    archive, audit, query = (f"tests/pipeline/{name}.py" for name in names)
    assert given == [{archive, query}, {audit}]
    assert sum(len(worker.given) for worker in workers) == len(tests)
    assert capsys.readouterr().err == ""  # else a whole run prints a line for each test
