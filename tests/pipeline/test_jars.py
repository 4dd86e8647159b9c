"""Resolved jars are used again as long as they are unchanged."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from kwire.pipeline import jars
from kwire.pipeline.session import JARS, PACKAGES, _found_again

COORDINATES = ["org.apache.spark:a_2.13:4.2.0", "org.example:b:1"]


@pytest.fixture
def resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The two jars of COORDINATES."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for path in found:
        path.write_bytes(b"a jar")
    assert jars.known(COORDINATES) is None
    jars.note(COORDINATES, ",".join(f"file://{path}" for path in found))
    return found


def test_noted_jars_are_found_by_packages_in_any_order(resolved: list[Path]) -> None:
    assert jars.known(reversed(COORDINATES)) == [str(path) for path in resolved]
    assert jars.known(COORDINATES[:1]) is None


def test_missing_or_cut_jar_is_resolved_again(resolved: list[Path]) -> None:
    resolved[0].write_bytes(b"a j")
    assert jars.known(COORDINATES) is None
    resolved[0].unlink()
    assert jars.known(COORDINATES) is None


def test_empty_resolution_is_not_noted(resolved: list[Path]) -> None:
    jars.note(COORDINATES[:1], "")
    assert jars.known(COORDINATES[:1]) is None


def test_session_uses_noted_jars_without_other_jar_settings(resolved: list[Path]) -> None:
    wanted = {PACKAGES: ",".join(COORDINATES), "spark.x": "1"}
    found = {JARS: ",".join(map(str, resolved)), "spark.x": "1"}
    assert _found_again(wanted, "local[2]") == found
    assert _found_again(wanted, "spark://there:7077") == wanted
    for setting in ("spark.jars.ivy", "spark.jars.excludes", JARS):
        more = wanted | {setting: "y"}
        assert _found_again(more, "local[2]") == more


def test_one_process_at_a_time_resolves_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with jars.resolving():
        [lock] = tmp_path.glob("cache/kwire/*.lock")
        with lock.open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_resolution_does_not_wait_without_a_cache_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with jars.resolving(), jars.resolving():
        pass
