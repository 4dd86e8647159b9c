"""The command line: `kwire serve` runs a broker, the other commands work with any Kafka cluster.

`main` is all that the installed command imports; what a command needs is imported when it runs.
"""

from __future__ import annotations

import sys

EXIT_INTERRUPTED = 130
"""What a shell says of a process that Ctrl-C has ended."""


def main() -> None:
    """Run the command line with the arguments of this process, to its end."""
    try:
        from kwire.cli.streams import prepare

        prepare()
        from kwire.cli.app import app, run

        status = run(app, "kwire")
    except KeyboardInterrupt:  # before or after the command, whose own Ctrl-C is its own matter
        status = EXIT_INTERRUPTED
    except RuntimeError as error:
        # Python 3.11 makes it of a Ctrl-C that comes while a class takes on its attributes.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        status = EXIT_INTERRUPTED
    sys.exit(status)
