"""Tests that the recipes of docker/README.md advertise the addresses that they state."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kwire.cli.image.settings import container_settings
from kwire.settings import BrokerConfig, load

README = Path(__file__).resolve().parents[2] / "docker" / "README.md"
VARIABLE = re.compile(r"""(?:-e |^  |`)(KAFKA_\w+)(?:=|: )"?([^\s"`\\]+)""", re.MULTILINE)

TOLD = {
    "Clients on the host only": ["PLAINTEXT://localhost:9092"],
    "Another port on the host": ["PLAINTEXT://localhost:29092"],
    "Clients in other containers only": ["PLAINTEXT://kafka:9092"],
    "Both": ["HOST://localhost:9092", "DOCKER://kafka:19092"],
    "Clients on other machines": ["PLAINTEXT://build-7.example:9092"],
    "Continuous integration, where the job is a container too": ["PLAINTEXT://localhost:9092"],
}
"""The advertised addresses by the recipe's name; the last one has no settings."""


def recipes() -> dict[str, str]:
    """Each recipe's text by its name, which is in bold at the beginning of a line."""
    _, _, text = README.read_text().partition("## Which address do clients use?")
    text = text.partition("| what a client does |")[0]
    parts = re.split(r"^\*\*([^*]+?)\.?\*\*", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def config_of(recipe: str, folder: Path) -> BrokerConfig:
    environ = dict(VARIABLE.findall(recipe))
    return load(*container_settings(environ, {}, folder / "server.properties"))


def test_every_recipe_of_the_readme_is_tested() -> None:
    assert recipes().keys() == TOLD.keys()
    for text in recipes().values():
        assert len(VARIABLE.findall(text)) == text.count("KAFKA_"), f"not all is read of {text}"


@pytest.mark.parametrize("name", TOLD)
def test_recipe_advertises_its_addresses(name: str, tmp_path: Path) -> None:
    config = config_of(recipes()[name], tmp_path)
    assert [f"{e.listener}://{e.host}:{e.port}" for e in config.advertised_listeners] == TOLD[name]
    assert all(listener.host in ("", "0.0.0.0") for listener in config.listeners)
    assert config.notes == ()
