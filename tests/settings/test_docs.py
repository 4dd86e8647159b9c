"""docs/settings.md is generated from the declarations: `pytest --rewrite` writes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kwire.settings import plugins
from kwire.settings.broker import BrokerConfig
from kwire.settings.client_metrics_settings import ClientMetricsSettings
from kwire.settings.definition import Definition, Settings
from kwire.settings.definitions import documentation
from kwire.settings.definitions.groups import GroupResourceSettings
from kwire.settings.effects import NO_MEANING, NOT_SERVED
from kwire.settings.topic_settings import TopicSettings
from kwire.settings.zookeeper import ZooKeeperSettings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
HEAD = """\
# What each setting does

kwire accepts every setting of Apache Kafka 4.3, and those of 3.9 that are about ZooKeeper, so that
Kafka's files and tools work. Some settings have no effect in kwire. `kwire serve` names these at
its start if they are given, and `kwire configs describe` marks them.

tests/settings/test_docs.py generates and checks this page. Another test finds the code that reads
each setting, and fails if this page says otherwise.
"""
OTHERS = """
## Settings of Apache Kafka's own plug-ins

kwire accepts them, since files for Apache Kafka have them. In a file they have no effect, except
those of the authorizer.

"""
RESOURCES: tuple[tuple[str, type[Settings], dict[str, str]], ...] = (
    ("Brokers", BrokerConfig, documentation.BROKER),
    ("Topics", TopicSettings, documentation.TOPIC),
    ("Groups", GroupResourceSettings, documentation.GROUP),
    ("Client metrics", ClientMetricsSettings, documentation.CLIENT_METRICS),
    ("Members of a cluster on ZooKeeper", ZooKeeperSettings, documentation.ZOOKEEPER),
)


def page() -> str:
    parts = [HEAD]
    for title, settings, sentences in RESOURCES:
        public = [each for _, each in sorted(settings.DEFINITIONS.items()) if not each.internal]
        parts.append(f"\n## {title}\n\n{counts(public)}\n")
        acting = [each for each in public if each.effect.acts]
        undocumented = {each.name for each in acting} - sentences.keys()
        assert not undocumented, f"definitions/documentation.py lacks a sentence: {undocumented}"
        if acting:
            parts.append("\n| setting | default | what it does |\n| --- | --- | --- |\n")
            parts += [f"| `{d.name}` | {default(d)} | {sentences[d.name]} |\n" for d in acting]
        parts += without_effect([each for each in public if not each.effect.acts])
    parts.append(OTHERS)
    parts += [f"- `{name}`: {owner}\n" for name, owner in sorted(plugins.NAMES.items())]
    parts += [f"- `{name}*`: {owner}\n" for name, owner in sorted(plugins.PREFIXES.items())]
    return "".join(parts)


def counts(public: list[Definition]) -> str:
    acting = sum(each.effect.acts for each in public)
    later = sum(each.effect.note.startswith(NOT_SERVED) for each in public)
    never = len(public) - acting - later
    return (
        f"{len(public)} settings: {acting} act, {later} are not served yet, {never} have no "
        "meaning in kwire."
    )


def default(definition: Definition) -> str:
    text = definition.default_text
    return f"`{text}`" if text else ""


def without_effect(definitions: Iterable[Definition]) -> Iterator[str]:
    """A table of the settings that are not served yet, and one of those without a meaning."""
    for kind, title in ((NOT_SERVED, "Not served yet"), (NO_MEANING, "No meaning in kwire")):
        of_kind = [each for each in definitions if each.effect.note.startswith(kind)]
        if of_kind:
            yield f"\n{title}:\n\n| setting | reason |\n| --- | --- |\n"
        for each in sorted(of_kind, key=lambda each: (each.effect.note, each.name)):
            yield f"| `{each.name}` | {each.effect.note.removeprefix(kind + ': ')} |\n"


def test_settings_page_matches_the_declarations(rewrite: bool) -> None:
    if rewrite:
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "docs/settings.md is out of date: pytest --rewrite"
