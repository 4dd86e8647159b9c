"""An error for a missing extra of kwire says how to install it."""

from __future__ import annotations

import importlib.util
import logging
import shlex
import sys
from pathlib import Path

import pytest

from kwire.cli.serve import Hosting, controlled
from kwire.client.errors import Misuse
from kwire.client.extras import how_to_install, installer, named
from kwire.client.telemetry import data_points
from kwire.testing import Kafka
from kwire.testing.control import ControlError

ROOT = Path(__file__).resolve().parents[2]


def test_how_to_install_names_the_folder_of_a_checkout() -> None:
    command = shlex.split(how_to_install("spark"))
    assert command == [sys.executable, "-m", "pip", "install", "-e", f"{ROOT}[spark]"]


def test_testing_without_its_extra_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit), caplog.at_level(logging.ERROR):
        controlled(Hosting(control=0))
    assert caplog.messages[-1].endswith(f"not installed: {how_to_install('testing')}")


def test_faults_without_the_extra_say_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kwire.testing.kafka.find_spec", lambda name: None)
    with pytest.raises(ControlError) as raised:
        _ = Kafka().control
    assert str(raised.value).endswith(how_to_install("testing"))


def test_telemetry_without_its_extra_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    with pytest.raises(Misuse) as raised:
        data_points(b"")
    assert str(raised.value).endswith(how_to_install("telemetry"))


@pytest.mark.parametrize(
    ("direct_url", "name"),
    [
        ('{"url": "file:///a/my%20kwire", "dir_info": {}}', "/a/my kwire[spark]"),
        ('{"url": "file:///a/kwire-1-py3-none-any.whl"}', "/a/kwire-1-py3-none-any.whl[spark]"),
        ('{"url": "https://h/kwire.whl"}', "kwire[spark] @ https://h/kwire.whl"),
        (None, "kwire[spark]"),
    ],
)
def test_named_uses_the_origin_of_the_installation(direct_url: str | None, name: str) -> None:
    assert named("spark", direct_url) == [name]


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("uv-receipt.toml", "uv tool install"),
        ("pipx_metadata.json", "pipx install --force"),
        ("pyvenv.cfg", f"{sys.executable} -m pip install"),
    ],
)
def test_extra_is_installed_by_what_made_the_environment(
    file: str, command: str, tmp_path: Path
) -> None:
    (tmp_path / file).touch()
    assert shlex.join(installer(tmp_path)) == command
