"""`python -m kwire` is `kwire`."""

from __future__ import annotations

from kwire.cli import main

if __name__ == "__main__":
    main()
