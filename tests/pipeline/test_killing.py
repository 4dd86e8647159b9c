"""A job in a round of kills can be killed at any moment, also after its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.killing import VICTIMS, Spark


@pytest.mark.slow
@pytest.mark.parametrize("victim", VICTIMS)
def test_kill_of_an_ended_job_is_ignored(victim: str, tmp_path: Path) -> None:
    job = Spark(["archive", "--help"], tmp_path / "job.log")
    job.finish(60)
    assert not job.running
    job.kill(victim)
    job.end()
