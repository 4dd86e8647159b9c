"""`python -m kwire.conformance`: kwire against Apache Kafka, both started for it."""

from __future__ import annotations

from kwire.conformance.command import run_command

if __name__ == "__main__":
    run_command(prog_name="python -m kwire.conformance")
