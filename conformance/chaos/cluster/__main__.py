"""`python -m kwire.conformance.chaos.cluster`."""

from __future__ import annotations

from kwire.conformance.chaos.cluster.command import main

if __name__ == "__main__":
    main(prog_name="python -m kwire.conformance.chaos.cluster")
