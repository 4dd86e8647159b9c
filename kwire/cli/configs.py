"""`kwire configs`: describes and alters the settings that a cluster stores."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from kwire.cli.app import connected
from kwire.cli.grammar.commands import Commands
from kwire.cli.grammar.listing import Listing
from kwire.cli.text.output import counted, json_option, print_json, print_table, say
from kwire.cli.text.suggestions import did_you_mean, misspelt, suggesting_settings
from kwire.cli.values import settings_option

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.configs import ConfigResource
    from kwire.codecs.messages.describe_configs import DescribeConfigsResourceResult

LISTING = Listing(60, "Describe and alter settings of topics, brokers and groups.")

TYPES = ["topic", "broker", "group", "client-metrics"]
type_argument = click.argument("kind", metavar="TYPE", type=click.Choice(TYPES))


@click.group("configs", cls=Commands)
def command() -> None:
    """Describe and alter settings of topics, brokers, groups and client metrics.

    TYPE is topic, broker, group or client-metrics.  The name of a broker is its id; the name ""
    means all brokers of the cluster.

    \b
      kwire configs describe topic orders
      kwire configs describe broker 1 --all
      kwire configs alter topic orders --set retention.ms=3600000
      kwire configs alter broker "" --set log.cleaner.threads=2
    """


def _resource(kind: str, name: str) -> ConfigResource:
    from kwire.client.configs import ConfigResource, ConfigResourceKind

    return ConfigResource(ConfigResourceKind[kind.upper().replace("-", "_")], name)


@command.command("describe")
@type_argument
@click.argument("name")
@click.option("--all", "show_all", is_flag=True, help="Show also settings with their default.")
@click.option("-k", "--key", "keys", multiple=True, metavar="NAME", help="Only this setting.")
@json_option
@connected
def describe_command(
    cluster: Cluster, kind: str, name: str, show_all: bool, keys: tuple[str, ...], as_json: bool
) -> None:
    """Describe the changed settings, or --all, with the source of each value."""
    from kwire.client.configs import Source, describe_configs, source_name
    from kwire.client.errors import Misuse

    resource = _resource(kind, name)
    found = [
        config
        for config in describe_configs(cluster, resource, keys or None, documented=True)
        if show_all or keys or config.config_source != Source.DEFAULT
    ]
    if missing := sorted(set(keys) - {config.name for config in found}):
        known = [config.name for config in describe_configs(cluster, resource)]
        raise Misuse(f"{resource} has no setting {missing[0]}{did_you_mean(missing[0], known)}")
    if as_json:
        print_json([_as_json(config) for config in found])
        return
    rows = [
        (
            config.name,
            "(sensitive)" if config.is_sensitive else config.value,
            source_name(config.config_source),
            "yes" if config.read_only else "",
            why_without_effect(config) or "",
        )
        for config in found
    ]
    columns = ["setting", "value", "source", "read only", "without effect"]
    shown = len(columns) if any(row[-1] for row in rows) else len(columns) - 1
    print_table(columns[:shown], [row[:shown] for row in rows])
    if not rows:
        say("all settings have their defaults: --all shows them")


WITHOUT_EFFECT = re.compile(r"(?:Not served yet|No meaning here): [^.]+")


def why_without_effect(config: DescribeConfigsResourceResult) -> str | None:
    """Why a setting has no effect, or None.  A kwire broker begins the documentation with it."""
    reason = WITHOUT_EFFECT.match(config.documentation or "")
    return f"{reason[0][0].lower()}{reason[0][1:]}" if reason else None


def _as_json(config: DescribeConfigsResourceResult) -> dict[str, object]:
    """Return a config as a JSON object.  `without_effect` says why kwire ignores the setting, or
    is null."""
    from kwire.client.configs import source_name

    return {
        "name": config.name,
        "value": config.value,
        "source": source_name(config.config_source),
        "read_only": config.read_only,
        "sensitive": config.is_sensitive,
        "without_effect": why_without_effect(config),
        "synonyms": [
            {"name": s.name, "value": s.value, "source": source_name(s.source)}
            for s in config.synonyms
        ],
    }


@command.command("alter")
@type_argument
@click.argument("name")
@settings_option("-s", "--set", "given", help="Set a setting.")
@click.option(
    "-d", "--delete", "deleted", metavar="NAME", multiple=True,
    help="Remove a setting, so that its default applies.",
)  # fmt: skip
@settings_option("--append", "appended", help="Add a value to a list.")
@settings_option("--subtract", "subtracted", help="Remove a value from a list.")
@click.option("--dry-run", is_flag=True, help="Let the broker check the changes; change nothing.")
@connected
def alter_command(
    cluster: Cluster,
    kind: str,
    name: str,
    given: tuple[tuple[str, str], ...],
    deleted: tuple[str, ...],
    appended: tuple[tuple[str, str], ...],
    subtracted: tuple[tuple[str, str], ...],
    dry_run: bool,
) -> None:
    """Change the named settings, and no others.

    \b
      kwire configs alter topic orders --set retention.ms=3600000 --delete max.message.bytes
      kwire configs alter topic orders --append cleanup.policy=compact
    """
    from kwire.client.configs import ConfigAlteration, alter_configs

    changes: dict[str, tuple[ConfigAlteration, str | None]] = {}
    changes |= {key: (ConfigAlteration.SET, value) for key, value in given}
    changes |= {key: (ConfigAlteration.DELETE, None) for key in deleted}
    changes |= {key: (ConfigAlteration.APPEND, value) for key, value in appended}
    changes |= {key: (ConfigAlteration.SUBTRACT, value) for key, value in subtracted}
    if not changes:
        raise click.UsageError("nothing to alter: give --set, --delete, --append or --subtract")
    resource = _resource(kind, name)
    with suggesting_settings(kind, changes):
        alter_configs(cluster, resource, changes, validate_only=dry_run)
    done = "can be changed" if dry_run else "changed"
    say(f"{resource}: {counted(len(changes), 'setting')} {done}")
    if kind == "broker":  # A broker accepts unknown settings, which may be those of plug-ins.
        for hint in misspelt(kind, changes):
            say(f"warning: Kafka has no setting {hint}")
