"""The command line: `kwire serve` runs a broker, the other commands work with any Kafka cluster.

`main` is all that the installed command imports; what a command needs is imported when it runs.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line with the arguments of this process."""
    from kwire.cli.app import app

    app(prog_name="kwire")
