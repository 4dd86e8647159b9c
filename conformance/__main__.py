"""`python -m kwire.conformance`: starts kwire and Apache Kafka, and compares them."""

from __future__ import annotations

from kwire.conformance.command import run_command

if __name__ == "__main__":
    run_command(prog_name="python -m kwire.conformance")
