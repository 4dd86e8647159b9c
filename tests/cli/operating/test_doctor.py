"""`kwire doctor --security`: what it says of a file, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kwire.cli.app import app
from kwire.cli.securing.secured import Secured
from kwire.security.tls.making import properties_text


def doctor(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", "--security", str(path), *arguments])


def write(path: Path, settings: dict[str, str]) -> Path:
    path.write_text(properties_text(settings))
    path.chmod(0o600)
    return path


@pytest.fixture
def secured(tmp_path: Path) -> dict[str, str]:
    """What `kwire serve --secure` sets."""
    prepared = Secured(tmp_path / "secure").prepare()
    return {"listeners": "SASL_SSL://localhost:9092", **prepared}


def test_doctor_finds_nothing_open_or_broken_in_settings_of_serve_secure(
    tmp_path: Path, secured: dict[str, str]
) -> None:
    done = doctor(write(tmp_path / "server.properties", secured))
    assert done.exit_code == 0, done.output
    assert "weak" in done.stdout
    settled = {**secured, "connections.max.reauth.ms": "3600000"}
    done = doctor(write(tmp_path / "server.properties", settled))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "nothing is open, broken or weak" in done.stderr


def test_doctor_lists_the_worst_findings_first(tmp_path: Path, secured: dict[str, str]) -> None:
    wrong = {"allow.everyone.if.no.acl.found": "true", "super.users": "Group:x"}
    done = doctor(write(tmp_path / "server.properties", {**secured, **wrong}), "--json")
    assert done.exit_code == 1
    assert [each["grade"] for each in json.loads(done.stdout)] == ["open", "broken", "weak"]
    assert doctor(tmp_path / "server.properties").stdout.splitlines()[1].startswith("open ")


def test_doctor_reports_a_file_with_secrets_that_others_can_read(
    tmp_path: Path, secured: dict[str, str]
) -> None:
    secret = "a secret that others may read, so they make tokens"
    path = write(tmp_path / "p", {**secured, "delegation.token.secret.key": secret})
    path.chmod(0o640)
    done = doctor(path, "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)[0]["about"] == str(path)
    assert secret not in done.output


def test_doctor_reports_an_invalid_file_as_broken(tmp_path: Path) -> None:
    done = doctor(write(tmp_path / "p", {"num.partitions": "many"}))
    assert done.exit_code == 1
    assert "num.partitions" in done.stdout


def test_doctor_checks_settings_of_the_command_line(
    tmp_path: Path, secured: dict[str, str]
) -> None:
    path = write(tmp_path / "p", secured)
    done = doctor(path, "--set", "allow.everyone.if.no.acl.found=true")
    assert done.exit_code == 1
