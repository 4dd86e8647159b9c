"""Derived tables and pages follow from the declarations: `make generated` writes them."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from kwire.cli.grammar import command_table
from kwire.cli.grammar.listing import Listing
from kwire.codecs.api_keys import ApiKey
from kwire.requests import route_table
from kwire.requests.route import NOTHING, Route
from tools import derived


@pytest.mark.parametrize("name", derived.FILES)
def test_derived_file_is_what_its_declarations_say(name: str) -> None:
    text = (derived.ROOT / name).read_text("utf-8")
    assert text == derived.FILES[name](), f"{name} is out of date: make generated"


def test_route_table_has_every_handler_module() -> None:
    folder = derived.ROOT / "kwire/requests/handlers"
    handlers = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    routes = (*route_table.ROUTES, *route_table.CLUSTER_ROUTES)
    assert {route.api_key.name.lower() for route in routes} == handlers
    assert len(routes) == len(handlers)


def test_route_of_another_api_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("kwire.requests.handlers.fetch")
    setattr(module, "ROUTE", Route(ApiKey.PRODUCE, 0, 1, NOTHING))  # noqa: B010 - not typed
    monkeypatch.setattr(derived, "declaring_modules", lambda package, name: [module])
    with pytest.raises(
        ValueError, match=r"kwire\.requests\.handlers\.fetch has a ROUTE of another"
    ):
        derived.routes()


def test_command_table_has_the_command_of_each_module() -> None:
    assert list(command_table.SUMMARIES) == list(command_table.MODULES)
    for name, module in command_table.MODULES.items():
        assert module.rpartition(".")[2] == name


def test_commands_page_has_every_command_in_the_order_of_the_help() -> None:
    page = (derived.ROOT / "docs/commands.md").read_text("utf-8")
    assert re.findall(r"^\| `kwire (\w+)` \|", page, re.MULTILINE) == list(command_table.SUMMARIES)


def test_two_commands_at_one_position_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = []
    for name in ("one", "other"):
        module = ModuleType(f"kwire.cli.{name}")
        setattr(module, "LISTING", Listing(10, "Do it."))  # noqa: B010 - not typed
        modules.append(module)
    monkeypatch.setattr(derived, "declaring_modules", lambda package, name: modules)
    with pytest.raises(ValueError, match="two commands have the same position"):
        derived.listed_commands()


def test_row_of_a_command_is_its_summary_unless_it_has_a_guide() -> None:
    assert Listing(10, "Run a broker.").row == "run a broker"
    assert Listing(10, "Run a broker.", "run it until Ctrl-C").row == "run it until Ctrl-C"


def test_section_of_a_page_is_replaced_between_its_marks() -> None:
    page = "a\n<!-- x: make generated writes this -->\nold\n<!-- /x -->\nb\n"
    assert derived.with_section(page, "x", "new\n") == page.replace("old", "new")


def test_apis_page_lists_the_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = [route for route in derived.routes() if route.api_key != ApiKey.END_TXN]
    monkeypatch.setattr(derived, "routes", lambda: routes)
    page = derived.apis_page()
    assert "| 18 | ApiVersions | 0-5 |" in page
    assert "| EndTxn |" not in page
