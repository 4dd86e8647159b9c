"""What the README says of commands and requests is what there is."""

from __future__ import annotations

import re
from importlib.metadata import metadata
from pathlib import Path

from kwire.cli.app import COMMANDS
from kwire.codecs.messages import API_NAMES
from kwire.requests.routes import ROUTES

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN = "<!-- apis: tests/test_readme.py writes and checks this table -->\n"
END = "<!-- /apis -->\n"


def table() -> str:
    rows = "".join(
        f"| {route.api_key.value} | {API_NAMES[route.api_key]} "
        f"| {route.min_version}-{route.max_version} |\n"
        for route in sorted(ROUTES, key=lambda route: route.api_key)
    )
    return f"| key | request | versions |\n| --- | --- | --- |\n{rows}"


def test_the_table_of_requests_is_the_registry(rewrite: bool) -> None:
    before, rest = README.read_text().split(BEGIN)
    found, after = rest.split(END)
    if rewrite:
        README.write_text(before + BEGIN + table() + END + after)
        return
    assert found == table(), "the README lags behind kwire/requests/routes.py: pytest --rewrite"


def test_pip_show_tells_the_licence_in_a_word() -> None:
    about = metadata("kwire")
    assert about["License"] == "Apache-2.0"
    assert about.get_all("License-File") == ["LICENSE"]


def test_every_command_is_named() -> None:
    named = re.findall(r"^\| `kwire (\w+)` \|", README.read_text(), re.MULTILINE)
    assert named == list(COMMANDS)


def test_links_lead_somewhere() -> None:
    for page in [README, *ROOT.glob("*.md"), ROOT / "docker" / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_targets_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in [*ROOT.glob("*.md"), ROOT / "docker" / "README.md"]:
        text = page.read_text()
        quoted = re.findall(r"`make ([a-z]+)", text) + re.findall(r"^make ([a-z]+)", text, re.M)
        for name in quoted:
            assert name in targets, f"{page.name}: make {name}"
