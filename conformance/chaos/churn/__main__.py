"""`python -m kwire.conformance.chaos.churn --minutes 30`."""

from __future__ import annotations

from kwire.conformance.chaos.churn.command import main

if __name__ == "__main__":
    main()
