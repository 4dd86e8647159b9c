"""kwire: a broker that speaks Apache Kafka's wire protocol."""

import sys

__version__ = "0.1.0"


class UnsupportedSystem(RuntimeError):
    """No broker can run on this system; the message says how to have one all the same."""


def check_system() -> None:
    """Raise UnsupportedSystem on Windows: a broker forks, and locks files as POSIX has it."""
    if sys.platform == "win32":
        raise UnsupportedSystem(
            "a broker of kwire runs on Linux and macOS, not on Windows itself: run it, and tests"
            " that start it, in WSL (`wsl --install`, then install kwire there as on Linux) or run"
            " it as a container (docker/README.md); clients on Windows reach both at localhost"
        )
