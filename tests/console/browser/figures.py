"""The table of figures in docs/console.md, which `make console-figures` writes."""

from __future__ import annotations

from tests.figures.table import FigureTable, machine, spread

__all__ = ["IS_WRITING", "keep", "machine", "spread"]

TABLE = FigureTable("docs/console.md", "console-figures", "KWIRE_CONSOLE_FIGURES")
IS_WRITING = TABLE.is_writing
keep = TABLE.keep
