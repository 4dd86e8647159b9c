"""The command line: `kwire serve` runs a broker, the other commands work with any Kafka cluster.

The installed command imports `main` only.  Each command imports what it needs when it runs.
"""

from __future__ import annotations

import sys

EXIT_INTERRUPTED = 130
"""The exit status that shells give a process that Ctrl-C has ended."""


def main() -> None:
    """Run the command line with the arguments of this process, and exit with its status."""
    try:
        from kwire.cli.streams import prepare

        prepare()
        from kwire.cli.app import app, run

        status = run(app, "kwire")
    except KeyboardInterrupt:  # Before or after the command.  A command handles its own Ctrl-C.
        status = EXIT_INTERRUPTED
    except RuntimeError as error:
        # Python 3.11 raises it for a Ctrl-C that arrives while a class is being created.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        status = EXIT_INTERRUPTED
    sys.exit(status)
