"""`python -m kwire.conformance.chaos.mixed`."""

from __future__ import annotations

from kwire.conformance.chaos.mixed.command import main

if __name__ == "__main__":
    main(prog_name="python -m kwire.conformance.chaos.mixed")
