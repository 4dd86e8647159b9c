"""Tests which oracle is started, what `--only` selects, and the report of parts that are lists."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from kwire.codecs.api_keys import ApiKey
from kwire.conformance import local
from kwire.conformance.apache_kafka import VERSION
from kwire.conformance.command import EXIT_NOT_RUN, run_command
from kwire.conformance.report import LineState, ListPart, ReportLine, write
from kwire.conformance.selection import parse

LINES = [
    ReportLine("groups.join", "Two members join.", LineState.GREEN),
    ReportLine("groups.leave", "One leaves.", LineState.EXCUSED, "  at line 1", "known"),
    ReportLine(
        "topics.create", "A topic <b>", LineState.RED, "  at line 2\n  subject: 1\n  oracle: 2"
    ),
]


@pytest.mark.parametrize(
    ("arguments", "release"), [(["--oracle-version", "4.3.1"], "4.3.1"), ([], VERSION)]
)
def test_oracle_has_the_given_release_or_is_the_reference(
    arguments: list[str], release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def apache(directory: Path, settings: dict[str, str], *, version: str) -> NoReturn:
        raise RuntimeError(f"no node of {version}")

    monkeypatch.setattr(local, "apache", apache)
    monkeypatch.setattr(local, "kwire", lambda *_: nullcontext("localhost:1"))
    done = CliRunner().invoke(run_command, arguments)
    assert done.exit_code == EXIT_NOT_RUN
    assert done.stderr == f"kwire: no node of {release}\n"


def test_no_selection_selects_all_parts() -> None:
    chosen = parse([])
    assert chosen.parts == {"wire", "behaviour", "hostile"}
    assert chosen.takes("behaviour", "groups.join")


@pytest.mark.parametrize("value", ["Fetch:12", "1:12", "wire:FETCH:12"])
def test_api_selects_its_version_of_the_wire_part(value: str) -> None:
    chosen = parse([value])
    assert chosen.parts == {"wire"}
    assert [tuple(selection) for selection in chosen.apis] == [(ApiKey.FETCH, 12)]
    assert not chosen.takes("behaviour", "fetching.empty")


def test_selection_takes_parts_and_names_within_them() -> None:
    chosen = parse(["behaviour:groups", "behaviour:topics", "hostile", "Produce"])
    assert chosen.parts == {"behaviour", "hostile", "wire"}
    assert chosen.takes("behaviour", "groups.join")
    assert not chosen.takes("behaviour", "fetching.empty")
    assert chosen.takes("hostile", "batch/set: null")


@pytest.mark.parametrize("value", ["Fetsch", "behavior", "wire:nothing", "Fetch:x"])
def test_unknown_selection_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"no API|invalid literal"):
        parse([value])


def test_list_part_is_reported_in_all_formats(tmp_path: Path) -> None:
    part = ListPart("behaviour", "Behaviour", LINES, 1.0)
    assert part.red == 1
    assert "1 green, 1 red, 1 with a known difference" in part.summary
    assert next(part.words()) == "topics.create: A topic <b>"
    write([part], "kwire", "Apache Kafka", tmp_path)

    report_json = json.loads(tmp_path.joinpath("report.json").read_text())
    assert [line["state"] for line in report_json["behaviour"]] == ["green", "excused", "red"]
    suites = ElementTree.parse(tmp_path / "report.xml").getroot()

    counts = {suite.get("name"): (suite.get("tests"), suite.get("failures")) for suite in suites}
    assert counts == {"behaviour: groups": ("2", "0"), "behaviour: topics": ("1", "1")}
    page = tmp_path.joinpath("report.html").read_text()
    assert "A topic &lt;b&gt;" in page
    assert "subject: 1" in page
