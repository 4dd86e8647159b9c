"""`python -m kwire.conformance.chaos`."""

from __future__ import annotations

from kwire.conformance.chaos.command import main

if __name__ == "__main__":
    main(prog_name="python -m kwire.conformance.chaos")
