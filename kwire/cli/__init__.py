"""The command line: `kwire serve` runs a broker, the other commands work with any Kafka cluster.

The installed command imports `main` only.  Each command imports what it needs when it runs.
"""

from __future__ import annotations

import sys

EXIT_INTERRUPTED = 130
"""The exit status that shells give a process that Ctrl-C has ended."""


def run_command() -> int:
    """Run the command that the arguments of this process name, and return its exit status."""
    from kwire.cli.app import app, run

    return run(app, "kwire")


def print_version() -> int:
    """Print the version, and return the exit status.

    Without click, of which the import takes longer than all else that this needs.
    """
    from kwire import __version__
    from kwire.cli.streams import OutputFailed, ReaderGone, drop_output

    try:
        print(f"kwire {__version__}", flush=True)
    except ReaderGone:
        drop_output()
    except OutputFailed as error:
        drop_output()
        print(f"kwire: {error}", file=sys.stderr)
        return 1
    return 0


def main() -> None:
    """Run the command line with the arguments of this process, and exit with its status."""
    try:
        from kwire.cli.streams import prepare

        prepare()
        status = print_version() if sys.argv[1:] == ["--version"] else run_command()
    except KeyboardInterrupt:  # Before or after the command.  A command handles its own Ctrl-C.
        status = EXIT_INTERRUPTED
    except RuntimeError as error:
        # Python 3.11 raises it for a Ctrl-C that arrives while a class is being created.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        status = EXIT_INTERRUPTED
    sys.exit(status)
