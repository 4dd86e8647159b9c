"""Runs the command of Kafka's that the first argument names."""

from __future__ import annotations

import sys
from typing import Final

TOOLS: Final = {
    "kafka-topics": "kwire.cli.image.tools.topics",
    "kafka-broker-api-versions": "kwire.cli.image.tools.api_versions",
    "kafka-console-producer": "kwire.cli.image.tools.console_producer",
    "kafka-console-consumer": "kwire.cli.image.tools.console_consumer",
    "cub": "kwire.cli.image.tools.cub",
}
"""The module that has the command as `command`."""
ELSEWHERE: Final = {
    "kafka-acls": "kwire acls",
    "kafka-cluster": "kwire cluster status",
    "kafka-configs": "kwire configs, kwire users and kwire quotas",
    "kafka-consumer-groups": "kwire groups",
    "kafka-delete-records": "kwire topics",
    "kafka-get-offsets": "kwire topics describe",
    "kafka-leader-election": "kwire cluster",
    "kafka-reassign-partitions": "kwire cluster reassign",
    "kafka-server-start": "/etc/kafka/docker/run",
}
"""What does the work of other commands of Kafka, which have other options."""
EXIT_USAGE: Final = 2


def main() -> None:
    """Run the command, and exit with its status."""
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in TOOLS:
        instead = ELSEWHERE.get(name)
        hint = f"use {instead}" if instead else f"it has {', '.join(TOOLS)}; see kwire --help"
        print(f"{name}: this image does not have Kafka's tools in Java: {hint}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    from importlib import import_module

    from kwire.cli.app import run
    from kwire.cli.streams import prepare

    prepare()
    sys.exit(run(import_module(TOOLS[name]).command, name))


if __name__ == "__main__":
    main()
